"""`ctrobust evaluate --attack autoattack`, killed before it has finished."""

import contextlib
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from ctrobust.outcomes import Evaluation
from ctrobust.store import Journal, StoredEvaluation
from tests.cli.command import COMMAND, Done, ctrobust

pytestmark = pytest.mark.slow

ENSEMBLE = "autoattack:eps=0.004,queries=300"


def outcomes(run: Path) -> Evaluation:
    (file,) = (run / "outcomes").glob("autoattack*.npz")
    return StoredEvaluation.read(file).evaluation


@pytest.mark.parametrize("workers", [1, 2])
def test_an_ensemble_killed_twice_resumes_to_the_same_outcomes(
    trained: tuple[Path, Done], environment: dict[str, str], tmp_path: Path, workers: int
) -> None:
    whole, killed = (Path(shutil.copytree(trained[0], tmp_path / name)) for name in ("whole", "killed"))
    command = f"--attack {ENSEMBLE} --limit 9 --chunk 3"
    done = ctrobust(f"evaluate {whole} {command}", tmp_path, environment)
    assert done.code == 0, done.err

    batches: list[int] = [0]
    for _ in range(2):
        process = subprocess.Popen(
            [COMMAND, "evaluate", str(killed), *command.split(), "--workers", str(workers)],
            cwd=tmp_path, env={**environment, "KILLED": str(killed)},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        stored, deadline = 0, time.monotonic() + 240
        while process.poll() is None and stored <= batches[-1] and time.monotonic() < deadline:
            time.sleep(0.02)
            stored = sum(len(Journal(file).read()) for file in (killed / "outcomes").glob("*.partial"))
        process.send_signal(signal.SIGKILL)
        assert process.wait(30) == -signal.SIGKILL  # it had not finished
        batches.append(stored)
    assert 0 < batches[1] < batches[2]
    assert not list((killed / "outcomes").glob("autoattack*.npz"))

    done = ctrobust(f"evaluate {killed} {command} --workers {workers}", tmp_path, environment)
    assert done.code == 0, done.err
    assert not _running(str(killed))  # workers ended with the killed processes
    expected, resumed = outcomes(whole).arrays(), outcomes(killed).arrays()
    assert {name: array.tobytes() for name, array in resumed.items()} == {
        name: array.tobytes() for name, array in expected.items()
    }
    assert not list((killed / "outcomes").glob("*.partial"))
    assert np.equal(expected["prediction"], expected["labels"]).any()  # some examples are robust to every stage


def _running(value: str) -> list[str]:
    """The processes with this value of a variable: the killed ones and their workers, which inherited it."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is not ours
            if f"KILLED={value}\0".encode() in (folder / "environ").read_bytes():
                found.append(folder.name)
    return found
