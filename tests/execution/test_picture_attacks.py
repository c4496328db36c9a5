"""Attacked images for people and as 8-bit files, which stay adversarial or are counted as lost."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from ctrobust.attacks import FGSM, PGD, Attack
from ctrobust.data import Dataset
from ctrobust.errors import InputError, RunError
from ctrobust.evaluation import evaluate
from ctrobust.execution.picture_attacks import attack_images, choose_examples, round_to_levels, save_images


def network() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return nn.Sequential(nn.Flatten(), nn.Linear(3 * 16, 24), nn.ReLU(), nn.Linear(24, 4)).eval()


def as_data(images: Tensor, labels: Tensor, classes: tuple[str, ...]) -> Dataset:
    channels = images.shape[1]
    return Dataset("npz:some", "test", images, labels, classes, (0.0,) * channels, (1.0,) * channels, verified=False)


@pytest.fixture
def data() -> Dataset:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (40, 3, 4, 4), generator=generator, dtype=torch.uint8)
    with torch.no_grad():
        labels = network()(images / 255).argmax(1)
    return as_data(images, labels, ("a", "b", "c", "\x1b[31md"))


ATTACK = PGD(8 / 255, steps=10)


def test_the_images_are_those_of_the_evaluation(data: Dataset) -> None:
    evaluation = evaluate(network(), data, ATTACK)
    assert 0 < evaluation.robust_accuracy < 1
    chosen = choose_examples(evaluation, 12)
    assert len(chosen) == 12
    found = attack_images(network(), data, ATTACK, chosen)
    assert found.broken.tolist() == [not evaluation.robust[position] for position in chosen]
    assert 0 < found.broken.sum() < 12
    assert np.abs(found.attacked - found.clean).max() <= 8 / 255 + 1e-6
    np.testing.assert_allclose(found.clean_probabilities, evaluation.clean_probabilities[chosen], atol=1e-5)


def test_more_pictures_than_examples(data: Dataset) -> None:
    evaluation = evaluate(network(), data, ATTACK, limit=5)
    assert choose_examples(evaluation, 100) == list(range(5))
    with pytest.raises(InputError, match="at least 1, got 0"):
        choose_examples(evaluation, 0)


@pytest.mark.parametrize("attack", [ATTACK, FGSM(3.5 / 255), PGD(0.3, norm="l2", steps=5)])
def test_saved_files_are_misclassified_and_inside_the_ball(data: Dataset, attack: Attack, tmp_path: Path) -> None:
    evaluation = evaluate(network(), data, attack)
    saved = save_images(network(), data, attack, evaluation, tmp_path / "images")
    broken = int((evaluation.clean_correct & ~evaluation.robust).sum())
    assert saved.saved + len(saved.lost) == broken > 0
    record = json.loads((tmp_path / "images" / "images.json").read_text())
    assert record["saved"] == saved.saved == len(record["images"])
    assert record["lost"] == list(saved.lost)
    for one in record["images"]:
        with Image.open(tmp_path / "images" / one["file"]) as picture:
            pixels = torch.from_numpy(np.array(picture)).permute(2, 0, 1)
        with torch.no_grad():
            assert int(network()(pixels[None] / 255).argmax()) == one["predicted"] != one["label"]
        change = (pixels.double() - data.images[one["position"]].double()) / 255
        assert float(change.abs().max() if attack.norm == "linf" else change.norm()) <= attack.eps + 1e-9


class Threshold(nn.Module):
    """Misclassifies an image whose first pixel is above 100.4 grey levels, which no 8-bit image from 100 down is."""

    def forward(self, x: Tensor) -> Tensor:
        score = (x.flatten(1)[:, 0] * 255 - 100.4) * 100
        return torch.stack([-score, score], 1)


def test_an_image_that_rounding_repairs_is_counted_as_lost(tmp_path: Path) -> None:
    images = torch.full((3, 1, 2, 2), 100, dtype=torch.uint8)
    images[1] = 99
    data = as_data(images, torch.zeros(3, dtype=torch.int64), ("low", "high"))
    attack = FGSM(0.45 / 255)
    evaluation = evaluate(Threshold().eval(), data, attack)
    assert evaluation.robust.tolist() == [False, True, False]
    saved = save_images(Threshold().eval(), data, attack, evaluation, tmp_path / "images")
    assert (saved.saved, saved.lost) == (0, (0, 2))
    record = json.loads((tmp_path / "images" / "images.json").read_text())
    assert record["lost"] == [0, 2]


def test_rounding_never_leaves_the_ball() -> None:
    images = torch.tensor([[[[0, 10, 255, 128]]]], dtype=torch.uint8)
    attacked = (images / 255 + torch.tensor([8.4, -8.4, 8.0, 8.4]) / 255).clamp(0, 1)
    assert round_to_levels(attacked, images, FGSM(8.4 / 255)).tolist() == [[[[8, 2, 255, 136]]]]


def test_a_folder_that_holds_something_is_refused(data: Dataset, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(RunError, match="is not an empty folder"):
        save_images(network(), data, ATTACK, evaluate(network(), data, ATTACK), tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]
