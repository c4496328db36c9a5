"""Two processes on one run directory at the same moment: one works, the other is refused, and no result differs."""

import shutil
import tempfile
from pathlib import Path

from commands import finish, report, run_command, start
from torture_evaluation import outcomes

PAIRS = 6
TRAIN = ["train", "--limit", "480", "--epochs", "4", "--width", "16", "--batch-size", "16", "--threads", "1"]
ATTACK = ["--attack", "pgd:eps=0.1,steps=40", "--threads", "1"]


def run(seed: int) -> bool:
    del seed
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        expected = run_command([*TRAIN, "--out", str(folder / "alone")])
        assert expected.code == 0, expected.err
        return all([_trainings(folder), _evaluations(folder)])


def _together(lines: list[list[str]]) -> list[int]:
    processes = [start(words) for words in lines]
    answers = [finish(process) for process in processes]
    return sorted(-1 if "internal error" in done.err else done.code for done in answers)


def _trainings(folder: Path) -> bool:
    weights = (folder / "alone" / "model.safetensors").read_bytes()
    one = same = 0
    for number in range(PAIRS):
        out = folder / f"pair{number}"
        codes = _together([[*TRAIN, "--out", str(out), "--resume"]] * 2)
        one += codes in ([0, 5], [0, 0])  # the second may begin when the first has finished
        lines = (out / "metrics.jsonl").read_text().count("\n")
        same += (out / "model.safetensors").read_bytes() == weights and lines == 4
    text = f"{PAIRS} pairs, {one} with one at work, {same} with identical weights and one line an epoch"
    return report("training", text, good=one == same == PAIRS)


def _evaluations(folder: Path) -> bool:
    alone = Path(shutil.copytree(folder / "alone", folder / "evaluated"))
    assert run_command(["evaluate", str(alone), *ATTACK]).code == 0
    one = same = 0
    for number in range(PAIRS):
        out = Path(shutil.copytree(folder / "alone", folder / f"evaluated{number}"))
        codes = _together([["evaluate", str(out), *ATTACK]] * 2)
        one += codes in ([0, 5], [0, 0])
        same += outcomes(out) == outcomes(alone)
    text = f"{PAIRS} pairs, {one} with one at work, {same} with identical outcomes"
    return report("evaluation", text, good=one == same == PAIRS)
