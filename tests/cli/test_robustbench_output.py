"""`ctrobust evaluate --robustbench`."""

import json
from pathlib import Path

import pytest

from tests.cli.command import Inside

ATTACK = "--attack autoattack:eps=0.1,queries=10 --attack fgsm:eps=0.1 --attack fgsm:eps=0.2 --limit 8 --threads 1"


def test_the_result_as_robustbench_lists_it(run: Path, inside: Inside) -> None:
    code, out, err = inside(f"evaluate run {ATTACK} --robustbench entry.json --json")
    assert code == 0, err
    document = json.loads(out)
    entry = json.loads((run.parent / "entry.json").read_text())
    assert (entry["name"], entry["dataset"], entry["eps"]) == ("run", "digits", "0.1")
    assert entry["autoattack_acc"] == f"{100 * document['attacks'][0]['robust_accuracy']:.2f}"
    assert entry["clean_acc"] == f"{100 * document['accuracy']:.2f}"
    assert "fgsm:eps=0.2" not in entry["footnote"]
    assert "Masking verdict: none was made at this radius." in entry["footnote"]

    assert inside(f"evaluate run {ATTACK} --robustbench entry.json --json").code == 0  # an entry is replaced
    (run.parent / "notes.txt").write_text("precious")
    code, _, err = inside(f"evaluate run {ATTACK} --robustbench notes.txt")
    assert code == 2
    assert "notes.txt exists and is no entry of RobustBench" in " ".join(err.split())
    assert (run.parent / "notes.txt").read_text() == "precious"


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--attack pgd:eps=0.1 --robustbench e.json", "RobustBench lists standard AutoAttack at one radius, got 0"),
        ("--attack autoattack --eps 0.1 --eps 0.2 --robustbench e.json", "at one radius, got 2"),
        ("--attack autoattack:eps=0.1,version=rand --robustbench e.json", "got 0"),
        ("--attack autoattack:eps=0.1 --robustbench no/e.json", "there is no folder"),
        ("--attack autoattack:eps=0.1 --robustbench run", "is a folder; name a file"),
    ],
)
def test_wrong_options_are_refused_before_anything_runs(inside: Inside, line: str, message: str) -> None:
    code, out, err = inside(f"evaluate run {line}")
    assert (code, out) == (2, "")
    assert message in " ".join(err.split())
