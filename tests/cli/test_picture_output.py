"""`ctrobust evaluate` with pictures, saved images, the worst case and the ranks of the classes reached."""

import json
from pathlib import Path

import pytest
from PIL import Image

from tests.cli.command import Inside

ATTACKS = "--attack fgsm --attack pgd:steps=3 --eps 0.2 --limit 60 --threads 1"


@pytest.mark.usefixtures("run")
def test_the_worst_case_is_printed_and_in_the_json(inside: Inside) -> None:
    code, out, err = inside(f"evaluate run {ATTACKS}")
    assert code == 0, err
    assert "worst case of 2 attacks (linf, eps 0.2): " in out
    document = json.loads(inside(f"evaluate run {ATTACKS} --json").out)
    (worst,) = document["worst_cases"]
    assert worst["ball"] == "linf, eps 0.2"
    assert worst["robust_accuracy"] <= min(one["robust_accuracy"] for one in document["attacks"])
    for one in document["attacks"]:
        assert sum(one["reached_ranks"].values()) == pytest.approx(1) or one["success_on_correct"] == 0
    alone = json.loads(inside("evaluate run --attack fgsm:eps=0.2 --attack fgsm:eps=0.1 --limit 60 --json").out)
    assert alone["worst_cases"] == []  # two balls, each with one attack


def test_a_contact_sheet_for_each_attack(run: Path, inside: Inside) -> None:
    code, out, err = inside(f"evaluate run {ATTACKS} --pictures 4")
    assert code == 0, err
    files = sorted((run / "artifacts").glob("pictures-*.png"))
    assert len(files) == 2
    for file in files:
        with Image.open(file) as sheet:
            assert sheet.width > 500
    assert out.count("pictures: ") == 2


@pytest.mark.usefixtures("run")
def test_saved_images(inside: Inside, tmp_path: Path) -> None:
    code, out, err = inside("evaluate run --attack fgsm:eps=0.2 --limit 60 --save-images attacked")
    assert code == 0, err
    record = json.loads((tmp_path / "attacked" / "images.json").read_text())
    assert f"{record['saved']} attacked images in attacked" in out
    assert len(list((tmp_path / "attacked").glob("*.png"))) == record["saved"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--pictures 4", "--pictures needs an attack"),
        ("--save-images x", "--save-images is for one attack; got 0"),
        (f"{ATTACKS} --save-images x", "--save-images is for one attack; got 2"),
    ],
)
@pytest.mark.usefixtures("run")
def test_options_that_do_not_fit_are_refused(inside: Inside, tmp_path: Path, options: str, message: str) -> None:
    code, _, err = inside(f"evaluate run {options}")
    assert code == 2
    assert message in err
    assert not (tmp_path / "x").exists()
