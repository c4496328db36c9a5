import hashlib
from typing import Any

import pytest
import torch

from ctrobust.data import Dataset
from ctrobust.data.dataset import mean_std
from ctrobust.errors import InputError


def fields(**changes: Any) -> dict[str, Any]:
    return {
        "name": "dots",
        "split": "test",
        "images": torch.arange(24, dtype=torch.uint8).reshape(4, 3, 1, 2),
        "labels": torch.tensor([0, 1, 2, 1]),
        "classes": ("a", "b", "c"),
        "mean": (0.5, 0.5, 0.5),
        "std": (0.2, 0.2, 0.2),
        "verified": True,
    } | changes


def test_sizes() -> None:
    dataset = Dataset(**fields())
    assert (len(dataset), dataset.in_channels, dataset.num_classes) == (4, 3, 3)


@pytest.mark.parametrize(("limit", "expected"), [(1, 1), (3, 3), (4, 4), (5, 4), (None, 4)])
def test_take_returns_the_first_examples(limit: int | None, expected: int) -> None:
    dataset = Dataset(**fields())
    taken = dataset.take(limit)
    assert torch.equal(taken.images, dataset.images[:expected])
    assert torch.equal(taken.labels, dataset.labels[:expected])
    assert (taken.name, taken.split, taken.classes, taken.verified) == ("dots", "test", ("a", "b", "c"), True)
    assert taken.images.data_ptr() == dataset.images.data_ptr()


@pytest.mark.parametrize("limit", [0, -1])
def test_take_refuses_less_than_one(limit: int) -> None:
    with pytest.raises(InputError, match=rf"limit must be at least 1; got {limit}"):
        Dataset(**fields()).take(limit)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images": torch.zeros(4, 3, 1, 2)}, r"images must be torch.uint8 .*; got torch.float32 \(4, 3, 1, 2\)"),
        ({"images": torch.zeros(4, 3, 2, dtype=torch.uint8)}, r"images must be .*\(N, C, H, W\).*got .*\(4, 3, 2\)"),
        ({"images": torch.zeros(0, 3, 1, 2, dtype=torch.uint8)}, r"images must be .* not empty; got .*\(0, 3, 1, 2\)"),
        ({"labels": torch.tensor([0, 1, 2])}, r"labels must be torch.int64 \(4,\); got torch.int64 \(3,\)"),
        ({"labels": torch.zeros(4, 1, dtype=torch.int64)}, r"labels must be torch.int64 \(4,\); got .*\(4, 1\)"),
        ({"labels": torch.zeros(4)}, r"labels must be torch.int64 \(4,\); got torch.float32"),
        ({"labels": torch.tensor([0, 1, 3, 1])}, r"labels must be 0 to 2, .*; got 0 to 3"),
        ({"labels": torch.tensor([0, -1, 2, 1])}, r"labels must be 0 to 2, .*; got -1 to 2"),
        ({"mean": (0.5,)}, r"mean must be 3 finite values, .*; got \(0.5,\)"),
        ({"mean": (0.5, 0.5, float("nan"))}, r"mean must be 3 finite values"),
        ({"std": (0.5,)}, r"std must be 3 positive values, .*; got \(0.5,\)"),
        ({"std": (0.2, 0.0, 0.2)}, r"std must be 3 positive values"),
        ({"std": (0.2, float("nan"), 0.2)}, r"std must be 3 positive values"),
    ],
)
def test_invalid_fields_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=r"dots \(test\): " + message):
        Dataset(**fields(**changes))


def test_the_digest_depends_on_the_contents_alone() -> None:
    images = torch.arange(3000 * 12, dtype=torch.int32).to(torch.uint8).reshape(3000, 3, 2, 2)
    labels = torch.arange(3000) % 3
    dataset = Dataset(**fields(images=images, labels=labels))
    expected = hashlib.sha256(images.numpy().tobytes() + labels.numpy().tobytes()).hexdigest()[:16]
    assert dataset.digest() == expected
    layout = images.to(memory_format=torch.channels_last)
    assert Dataset(**fields(images=layout, labels=labels, name="other", split="train")).digest() == expected
    images[2999, 2, 1, 1] += 1
    assert dataset.digest() != expected
    assert Dataset(**fields(images=images, labels=labels.flip(0))).digest() != dataset.digest()
    assert dataset.take(2000).digest() != dataset.digest()


def random_images(count: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (count, 3, 4, 5), dtype=torch.uint8, generator=generator)


def test_mean_and_std_against_numpy() -> None:
    x = random_images(11)
    values = x.double().numpy() / 255
    mean, std = mean_std(x)
    assert mean == pytest.approx(values.mean((0, 2, 3)), abs=1e-12)
    assert std == pytest.approx(values.std((0, 2, 3)), abs=1e-12)


def test_mean_and_std_of_any_memory_format() -> None:
    x = random_images(5)
    assert mean_std(x.to(memory_format=torch.channels_last)) == mean_std(x)


def test_a_constant_channel_has_a_standard_deviation_of_one() -> None:
    x = random_images(4)
    x[:, 1] = 51
    mean, std = mean_std(x)
    assert (mean[1], std[1]) == (0.2, 1.0)
    assert std[0] != 1.0
