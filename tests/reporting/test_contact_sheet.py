"""The contact sheet: its size, the images in it, and names that hold control characters."""

import numpy as np
import pytest

from ctrobust.outcomes import AttackedImages
from ctrobust.reporting.contact_sheet import SIDE, _printable, as_picture, contact_sheet


def some(count: int, channels: int = 1) -> AttackedImages:
    draw = np.random.default_rng(0)
    clean = draw.random((count, channels, 8, 8)).astype(np.float32)
    probabilities = draw.dirichlet(np.ones(5), size=(2, count)).astype(np.float32)
    return AttackedImages(
        positions=np.arange(count), labels=np.arange(count) % 5, clean=clean,
        attacked=np.clip(clean + 0.03 * draw.choice([-1, 1], clean.shape), 0, 1), clean_probabilities=probabilities[0],
        probabilities=probabilities[1], classes=("a", "\x1b[31mred", "c", "d" * 60, "ü"), attack="fgsm:eps=0.03",
    )  # fmt: skip


@pytest.mark.parametrize(("count", "channels"), [(1, 1), (5, 3), (16, 4)])
def test_every_example_has_a_card(count: int, channels: int) -> None:
    images = some(count, channels)
    one, two = contact_sheet(images, columns=1), contact_sheet(images, columns=2)
    assert one.height > two.height or count == 1
    assert two.width > one.width
    sheet = np.asarray(two)
    first = np.asarray(as_picture(images.clean[0]).resize((SIDE, SIDE), 0))
    assert (sheet[48 + 34 : 48 + 34 + SIDE, 10 : 10 + SIDE] == first).all()


def test_images_that_do_not_change() -> None:
    images = some(2)
    still = AttackedImages(**{**vars(images), "attacked": images.clean})
    assert contact_sheet(still).size == contact_sheet(images).size


def test_control_characters_are_escaped() -> None:
    assert _printable("\x1b[31mred") == "\\x1b[31mred"
