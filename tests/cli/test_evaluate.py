"""`ctrobust evaluate`: attacks on the small run."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ctrobust.store import Journal, StoredEvaluation
from tests.cli.command import COLOURS, COMMAND, Inside, Terminal, plain


@pytest.mark.usefixtures("run")
def test_several_attacks_and_radii_as_json(inside: Inside, tmp_path: Path) -> None:
    args = "evaluate run --attack fgsm --attack s-pgd:steps=3 --attack pgd:eps=0.3,steps=2 --eps 8/255 --eps 0.1"
    code, out, err = inside(f"{args} --limit 40 --json --threads 1")
    assert code == 0, err
    document = json.loads(out)  # nothing else is printed
    assert document["run"] == "run"
    assert document["data"] == {"name": "digits", "split": "test", "verified": True, "count": 40}
    assert document["threshold"]["wrong_total"] == 40 * 9
    radii = {
        "fgsm:eps=8/255": 8 / 255, "fgsm:eps=0.1": 0.1, "pgd:eps=8/255,steps=3,loss=std": 8 / 255,
        "pgd:eps=0.1,steps=3,loss=std": 0.1, "pgd:eps=0.3,steps=2": 0.3,
    }  # fmt: skip
    assert [one["attack"] for one in document["attacks"]] == list(radii)
    assert document["accuracy_interval"][0] <= document["accuracy"] <= document["accuracy_interval"][1]
    for one in document["attacks"]:
        assert one["count"] == 40
        assert one["interval"][0] <= one["robust_accuracy"] <= one["interval"][1]
        assert one["robust_accuracy"] <= document["accuracy"]
        assert one["attack_success_rate"] == 1 - one["robust_accuracy"]
        assert one["success_on_correct"] == pytest.approx(1 - one["robust_accuracy"] / document["accuracy"])
        assert one["largest_distance"] == pytest.approx(radii[one["attack"]], abs=1e-6)
        assert one["seconds"] > 0
        stored = StoredEvaluation.read(tmp_path / one["outcomes"]).evaluation
        assert stored.probabilities is not None
        assert stored.probabilities.shape == (40, 10)
        assert int(stored.forwards.sum()) == one["forwards"]

    again = json.loads(inside(f"{args} --limit 40 --json").out)
    assert [one.pop("seconds") for one in again["attacks"]] == [None] * 5
    for one in document["attacks"]:
        one.pop("seconds")
    assert again == document


@pytest.mark.usefixtures("run")
def test_a_table(inside: Inside) -> None:
    args = "evaluate run --attack pgd:steps=2 --eps 0.1 --eps 0.2 --limit 40 --chunk 16"
    code, out, err = inside(args)
    assert code == 0
    assert err == "evaluate run: 100%\n"
    assert "\x1b" not in out
    assert out.startswith("run on digits (test), 40 images\naccuracy ")
    assert [line.split()[0] for line in out.splitlines() if "eps=" in line] == [
        "pgd:eps=0.1,steps=2", "pgd:eps=0.2,steps=2",
    ]  # fmt: skip
    assert "success rate on all images" in out
    assert "success rate on correct images" in out
    assert "confidence threshold 1/9" in out
    assert inside(args).out.count("stored") == 2


def test_a_weights_file_by_itself(inside: Inside, run: Path, tmp_path: Path) -> None:
    shutil.copy(run / "model.safetensors", tmp_path / "gewichte ü [1].safetensors")
    code, out, err = inside("evaluate --limit 20", "gewichte ü [1].safetensors")
    assert code == 0, err
    assert out.startswith("gewichte ü [1].safetensors on digits (test), 20 images\n")
    assert not (run / "outcomes").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="file names are bytes on Linux only")
@pytest.mark.parametrize("encoding", ["utf-8:strict", "utf-8:surrogateescape"])
def test_a_path_that_cannot_be_decoded(run: Path, environment: dict[str, str], encoding: str) -> None:
    path = Path(os.fsdecode(os.fsencode(run.with_name("r")) + b"\xff"))
    shutil.copytree(run, path)
    done = subprocess.run(
        [COMMAND, "evaluate", path, "--limit", "20", "--attack", "fgsm:eps=0.1"],
        env={**environment, "PYTHONIOENCODING": encoding}, capture_output=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert b"r\\udcff on digits (test), 20 images\n" in done.stdout  # escaped, whatever the encoding would allow
    assert any((path / "outcomes").iterdir())


def test_output_into_a_closed_pipe(run: Path, environment: dict[str, str]) -> None:
    process = subprocess.Popen(
        [COMMAND, "evaluate", str(run), "--limit", "20"],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()  # as `head -1` does when it has its line
    with process.stderr as errors:
        complaint = errors.read()
    assert process.wait(timeout=60) == 141
    assert complaint in ("", f"evaluate {run}: 100% clean images\n")


def test_piped_into_head(tmp_path: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        f"'{COMMAND}' evaluate --help | head -1",
        shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.count("\n") == 1


def test_a_long_list_piped_into_head(tmp_path: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        ["bash", "-c", f"'{COMMAND}' list attacks | head -1; echo ${{PIPESTATUS[0]}}"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    first, code = done.stdout.splitlines()
    assert first.startswith("fgsm ")
    assert code in ("0", "141")
    assert done.stderr == ""


@pytest.mark.usefixtures("run")
def test_stored_outcomes_show_no_progress_on_a_terminal_of_80_columns(
    inside: Inside, terminal: Callable[..., Terminal]
) -> None:
    long = "pgd:eps=0.1,steps=3,loss=sce(gamma=5),restarts=2,step_size=0.05"
    line = f"evaluate run --attack pgd:eps=0.1,steps=2 --attack {long} --limit 4"
    assert inside(line).code == 0
    shown = terminal(line, COLUMNS="80")
    assert shown.end() == 0
    seen = plain(shown.text)
    assert "ETA" not in seen
    assert "?" not in seen
    assert all(len(text.rstrip()) <= 80 for text in seen.split("\n"))
    assert len(re.findall(r"\d+\.\d% \[\d+\.\d, \d+\.\d\]", seen)) == 4  # clean, two attacks, their worst case


def test_the_progress_of_an_attack_and_ctrl_c(run: Path, inside: Inside, terminal: Callable[..., Terminal]) -> None:
    """An attack of radius 0 breaks no example, so that it lasts until it is interrupted."""
    shown = terminal("evaluate run --attack fgsm:eps=0.1 --attack pgd:eps=0,steps=1000000 --chunk 100")
    outcomes = run / "outcomes"
    shown.until(lambda: any(outcomes.glob("fgsm*.npz")) and "pgd:eps=0,steps=1000000" in plain(shown.text))
    assert shown.interrupt() == 130
    seen = plain(shown.text)
    assert re.search(r"evaluate run .*━.* pgd:eps=0,steps=1000000 0:\d\d:\d\d ETA ", seen)
    assert COLOURS.search(shown.text)
    assert "interrupted: stopped; finished attacks and batches are stored and will not be run again" in seen
    assert (
        "resume with:\n  ctrobust evaluate run --attack fgsm:eps=0.1 --attack pgd:eps=0,steps=1000000 --chunk 100"
        in (seen.replace("\n\n", "\n"))
    )
    assert "Traceback" not in seen
    assert shown.text.rindex("\x1b[?25h") > shown.text.rindex("\x1b[?25l")  # the cursor is shown again

    assert sorted({path.name.split("-")[0] for path in outcomes.glob("*.npz")}) == ["fgsm", "none"]
    document = json.loads(inside("evaluate run --attack fgsm:eps=0.1 --chunk 100 --json").out)
    assert document["attacks"][0]["seconds"] is None


def test_nothing_is_resumed_where_nothing_is_stored(run: Path, terminal: Callable[..., Terminal]) -> None:
    run.joinpath("model.safetensors").rename(run.with_name("alone.safetensors"))
    shown = terminal("evaluate alone.safetensors --attack pgd:eps=0,steps=1000000 --limit 20")
    shown.until(lambda: "pgd:eps=0,steps=1000000 0:" in plain(shown.text))
    assert shown.interrupt() == 130
    seen = " ".join(plain(shown.text).split())
    assert "interrupted: stopped; nothing is stored for a weights file outside a run directory" in seen
    assert "resume with" not in seen


@pytest.mark.slow
def test_ctrl_c_ends_the_workers_and_the_printed_command_continues(
    run: Path, terminal: Callable[..., Terminal]
) -> None:
    """Stage after stage of short attacks, so that batches are finished all the time."""
    line = "evaluate run --attack pgd:eps=0,steps=20,restarts=400 --limit 40 --chunk 10 --workers 2"
    shown = terminal(line)
    shown.until(lambda: any(file.stat().st_size > 0 for file in (run / "outcomes").glob("*.partial")))
    workers = children(shown.process.pid)
    assert len(workers) >= 2
    assert shown.interrupt() == 130
    (command,) = re.findall(r"ctrobust (evaluate run .*?)\s*$", plain(shown.text), re.MULTILINE)
    assert command == line
    deadline = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in workers):  # Python's resource tracker ends a moment later
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert "Traceback" not in shown.text
    (partial,) = (run / "outcomes").glob("*.partial")
    before = len(Journal(partial).read())
    again = terminal(command)
    again.until(lambda: len(Journal(partial).read()) > before)
    assert again.interrupt() == 130


def children(pid: int) -> list[int]:
    """The processes that a process started."""
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=True)
    return [int(line) for line in found.stdout.split()]
