"""`ctrobust train` on a folder of the user's pictures, with defaults that fit them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from ctrobust.models import build_from_spec, load, save_weights
from ctrobust.specs import ModelSpec
from ctrobust.store import RunDirectory
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
    command = next(line for line in out.splitlines() if line.startswith("  ctrobust evaluate run --data folder:pics "))
    assert inside(f"{command.split(' --attack')[0].removeprefix('  ctrobust ')} --attack fgsm:eps=8/255").code == 0


@pytest.mark.parametrize("command", ["evaluate run", "train --resume --out run", "evaluate run/model.safetensors"])
def test_a_run_does_not_choose_the_path_that_is_read(inside: Inside, tmp_path: Path, command: str) -> None:
    put_pictures(tmp_path / "pics", 16, 20)
    assert inside("train --data folder:pics --epochs 1 --width 2 --out run").code == 0
    done = inside(command)
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith("data of your own are read only where you name them. Add to the command:\n"
                             "  --data folder:pics\n")  # fmt: skip
    assert inside(f"{command} --data folder:pics").code == 0


def test_the_note_of_a_weights_file_does_not_choose_the_path_that_is_read(inside: Inside, tmp_path: Path) -> None:
    (tmp_path / "secret" / "private").mkdir(parents=True)
    file = tmp_path / "given.safetensors"
    spec = ModelSpec(width=2)
    save_weights(
        file, build_from_spec(spec, 1, 2), spec, in_channels=1, classes=["a", "b"], data=f"folder:{tmp_path}/secret"
    )
    done = inside(f"evaluate {file}")
    assert done.code == 2
    assert "private" not in done.err
    assert f"\n  --data folder:{tmp_path}/secret\n" in done.err


def stored_batch_size(run: Path) -> int:
    return RunDirectory(run).read_spec().batch_size


def test_the_default_batch_size_gives_at_least_50_steps_an_epoch(inside: Inside, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    splits: dict[str, Any] = {
        f"{kind}_{split}": array
        for split, count in (("train", 1700), ("test", 20))
        for kind, array in (
            ("images", rng.integers(0, 256, (count, 16, 16), dtype=np.uint8)), ("labels", np.arange(count) % 2),
        )
    }  # fmt: skip
    np.savez(tmp_path / "mine.npz", **splits)
    train = "train --data npz:mine.npz --epochs 1 --width 2"
    assert inside(f"{train} --out one").code == 0
    assert stored_batch_size(tmp_path / "one") == 32
    assert len((tmp_path / "one" / "metrics.jsonl").read_text().splitlines()) == 1
    assert inside(f"{train} --out two --limit 900 --validation 50").code == 0
    assert stored_batch_size(tmp_path / "two") == 16
    assert inside(f"{train} --out three --batch-size 128").code == 0
    assert stored_batch_size(tmp_path / "three") == 128
    resumed = inside(f"{train} --out one --resume")
    assert resumed.code == 0, resumed.err  # the stored spec counts


def test_few_pictures_have_batches_of_eight(inside: Inside, tmp_path: Path) -> None:
    put_pictures(tmp_path / "pics", 16, 40)
    assert inside("train --data folder:pics --epochs 1 --width 2").code == 0
    (run,) = (tmp_path / "runs").iterdir()
    assert stored_batch_size(run) == 8
    assert inside("train --data folder:pics --epochs 1 --width 2 --resume").code == 0
    assert list((tmp_path / "runs").iterdir()) == [run]


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
