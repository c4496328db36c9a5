"""`ctrobust evaluate --verdict`, and the line beside robust accuracies."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ctrobust.execution import evaluation_data, read_weights, verdict_stored
from ctrobust.store import RunDirectory, read_verdicts
from tests.cli.command import Inside, Terminal, plain

SUMMARY = "Not tested: the network classifies "  # so many of 100, no more than by guessing


@pytest.fixture
def tested(run: Path) -> Path:
    """A run with the verdict of two tests."""
    weights = read_weights(run)
    digits = evaluation_data(weights, None, None)
    verdict_stored(weights, digits, eps=0.1, limit=100, tests=["zero gradients"])
    return run


@pytest.mark.usefixtures("tested")
def test_a_stored_verdict_is_shown_beside_attacks_at_its_radius(inside: Inside) -> None:
    code, out, err = inside("evaluate run --attack fgsm --eps 0.1 --limit 100")
    assert code == 0, err
    assert out.splitlines()[-1].startswith(f"masking verdict (100 images, linf, eps 0.1): {SUMMARY}")
    assert "masking" not in inside("evaluate run --attack fgsm --eps 0.2 --limit 100").out
    (verdict,) = json.loads(inside("evaluate run --attack fgsm --eps 0.1 --limit 100 --json").out)["verdicts"]
    assert (verdict["level"], verdict["tests_run"], verdict["tests_total"]) == ("not tested", 2, 14)


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--verdict --attack pgd --eps 0.1", "--verdict chooses its attacks: leave out --attack"),
        ("--verdict --eps 0.1 --eps 0.2", "--verdict takes one --eps, got 0.1, 0.2"),
        ("--verdict --eps 8", "eps is for images in [0, 1]"),
        ("--verdict --no-fuse", "--no-fuse is for attacks"),
        ("--verdict --eps 0", "the radius of a verdict is more than 0, got 0"),
        ("--verdict --eps 0.1..0.3", "--verdict takes one --eps, got 0.1..0.3"),
        ("--verdict --pictures 4", "--pictures is not for --verdict: leave it out"),
        ("--verdict --save-images folder", "--save-images is not for --verdict"),
        ("--verdict --robustbench e.json", "--robustbench is not for --verdict"),
        ("--transfer run", "--transfer is for --verdict"),
    ],
)
def test_wrong_options(inside: Inside, line: str, message: str) -> None:
    code, out, err = inside(f"evaluate run {line}")
    assert (code, out) == (2, "")
    assert message in " ".join(err.split())


@pytest.mark.slow
def test_all_tests_in_a_terminal_of_80_columns_and_as_json(
    tested: Path, terminal: Callable[..., Terminal], inside: Inside
) -> None:
    shown = terminal("evaluate run --verdict --eps 0.1 --limit 100 --threads 1", COLUMNS="80")
    assert shown.end() == 0
    lines = [line.rstrip() for line in plain(shown.text).splitlines()]
    assert max(len(line) for line in lines if "━" not in line and "stored in" not in line) <= 80
    (record,) = read_verdicts(RunDirectory(tested))
    assert record.complete
    assert record.verdict.tests_run == 13
    assert record.verdict.summary in " ".join(" ".join(lines).split())
    for one in record.verdict.evidence:
        assert any(line.startswith(f"{one.test:25}  {one.level}") for line in lines)
    document = json.loads(inside("evaluate run --verdict --eps 0.1 --limit 100 --json").out)
    assert document["verdict"] == record.verdict.to_dict()
    assert Path(document["file"]).is_file()
