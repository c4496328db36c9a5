"""`ctrobust evaluate` with a range of radii."""

import json
from pathlib import Path

import pytest

from tests.cli.command import Inside

RANGE = "--eps 0.05..0.15 --limit 40 --threads 1"


def test_a_curve_of_two_attacks(run: Path, inside: Inside) -> None:
    code, out, err = inside(f"evaluate run --attack fgsm --attack pgd:steps=3 {RANGE} --bisections 2")
    assert code == 0, err
    for text in ("fgsm", "pgd:steps=3", "all attacks", "0.05", "0.1", "0.15", "smallest radius that breaks an image"):
        assert text in out
    assert out.count("stored in ") == 2
    assert len(list((run / "curves").glob("*.json"))) == 2
    again = inside(f"evaluate run --attack fgsm --attack pgd:steps=3 {RANGE} --bisections 2")
    assert again.out.count("found in ") == 2
    document = json.loads(inside(f"evaluate run --attack fgsm --attack pgd:steps=3 {RANGE} --json").out)
    first, second = document["curves"]
    assert first["radii"] == [0.05, 0.1, 0.15]
    for one in (first, second, document["worst_case"]):
        assert one["robust_accuracies"] == sorted(one["robust_accuracies"], reverse=True)
    joined = zip(first["robust_accuracies"], second["robust_accuracies"], strict=True)
    for worst, pair in zip(document["worst_case"]["robust_accuracies"], joined, strict=True):
        assert worst <= min(pair)


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--attack pgd --eps 0.1..0.25", "goes up in steps of its first value"),
        ("--attack pgd --eps 0.2..0.1", "goes down; write the smaller radius first"),
        ("--attack pgd --eps 0.1..0.2 --eps 0.3", "a curve has one range of radii; got --eps 0.1..0.2, --eps 0.3"),
        ("--attack pgd:eps=0.1 --eps 0.1..0.2", "each given attack has its own"),
        ("--attack pgd --eps 0.1..0.2 --pictures 4", "--pictures is not for a range of radii"),
        ("--attack pgd --eps 0.1..0.2 --workers 2", "--workers is not for a range of radii"),
        ("--attack pgd --eps 0.1 --bisections 2", "--bisections is for a range of radii"),
        ("--eps 0.1..0.2", "--eps needs an attack"),
        ("--attack pgd --eps 1..3", "eps is for images in [0, 1]"),
    ],
)
def test_wrong_options(inside: Inside, line: str, message: str) -> None:
    code, out, err = inside(f"evaluate run {line}")
    assert (code, out) == (2, "")
    assert message in " ".join(err.split())
