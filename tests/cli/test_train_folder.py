"""`ctrobust train` on a folder of the user's pictures, with defaults that fit them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from ctrobust.models import load
from tests.cli.command import Inside


def put_pictures(folder: Path, side: int, count: int) -> None:
    """Write `count` pictures for each of two classes, one dark and one bright."""
    pixels = np.random.default_rng(0)
    for brightness, name in ((0, "dark"), (155, "bright")):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            noise = pixels.integers(0, 100, (side, side, 3), dtype=np.uint8)
            Image.fromarray(noise + np.uint8(brightness)).save(folder / name / f"{number}.png")


@pytest.mark.parametrize("side", [16, 32])
def test_the_default_network_fits_the_pictures(inside: Inside, tmp_path: Path, side: int) -> None:
    put_pictures(tmp_path / "pics", side, 40)
    code, out, err = inside("train --data folder:pics --epochs 1 --width 8 --out run")
    assert code == 0, err
    assert "folder:pics" in out
    model = load(tmp_path / "run")
    assert model(torch.rand(2, 3, side, side)).shape == (2, 2)
    assert inside("evaluate run --attack fgsm:eps=8/255").code == 0


@pytest.mark.parametrize(
    ("side", "options", "message"),
    [
        (4, "", "mnistnet takes images of at least 16x16; got 4x4. resnet18 takes any size"),
        (15, "", "mnistnet takes images of at least 16x16; got 15x15"),
        (16, "--model vgg16", "vgg16 takes images of at least 32x32; got 16x16. resnet18 takes any size"),
    ],
)
def test_pictures_that_are_too_small_are_refused_and_nothing_is_left(
    inside: Inside, tmp_path: Path, side: int, options: str, message: str
) -> None:
    put_pictures(tmp_path / "pics", side, 20)
    code, out, err = inside(f"train --data folder:pics --epochs 1 --width 8 {options}")
    assert (code, out) == (2, "")
    assert message in " ".join(err.split())
    assert [path.name for path in tmp_path.iterdir()] == ["pics"]


def test_a_run_that_fails_in_its_first_step_leaves_no_directory(inside: Inside, tmp_path: Path) -> None:
    put_pictures(tmp_path / "pics", 4, 20)
    options = "--model resnet18 --batch-size 1 --epochs 1 --width 8 --out run"
    code, _, err = inside(f"train --data folder:pics {options}")
    assert code == 2
    assert "BatchNorm cannot normalize a batch of 1 images" in " ".join(err.split())
    assert [path.name for path in tmp_path.iterdir()] == ["pics"]
