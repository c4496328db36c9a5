"""`ctrobust evaluate --attack autoattack`, killed in the middle."""

import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np

from ctrobust.store import read_arrays
from tests.cli.command import COMMAND, Done, ctrobust

ENSEMBLE = "autoattack:eps=0.004,queries=300"


def outcomes(run: Path) -> dict[str, bytes]:
    (file,) = (run / "outcomes").glob("autoattack*.npz")
    assert not file.name.endswith(".partial.npz")
    return {name: value.tobytes() for name, value in read_arrays(file).items()}


def test_an_ensemble_killed_twice_goes_on_to_the_same_outcomes(
    trained: tuple[Path, Done], environment: dict[str, str], tmp_path: Path
) -> None:
    whole, killed = (Path(shutil.copytree(trained[0], tmp_path / name)) for name in ("whole", "killed"))
    command = f"--attack {ENSEMBLE} --limit 9 --chunk 3"
    done = ctrobust(f"evaluate {whole} {command}", tmp_path, environment)
    assert done.code == 0, done.err

    tried: list[int] = []
    for _ in range(2):
        begun = subprocess.Popen(
            [COMMAND, "evaluate", str(killed), *command.split()],
            cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        before, deadline = tried[-1] if tried else -1, time.monotonic() + 120
        while begun.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
            found = list((killed / "outcomes").glob("*.partial.npz"))
            if found and (now := int(read_arrays(found[0])["tried"].sum())) > before:
                break
        begun.send_signal(signal.SIGKILL)
        assert begun.wait(30) == -signal.SIGKILL  # it was killed, not done
        tried.append(now)
    assert 0 < tried[0] < tried[1]
    assert not list((killed / "outcomes").glob("autoattack*[!l].npz"))

    done = ctrobust(f"evaluate {killed} {command}", tmp_path, environment)
    assert done.code == 0, done.err
    assert outcomes(killed) == outcomes(whole)
    assert not list((killed / "outcomes").glob("*.partial.npz"))
    (file,) = (whole / "outcomes").glob("autoattack*.npz")
    assert np.equal(read_arrays(file)["prediction"], read_arrays(file)["labels"]).any()  # some stood to the end
