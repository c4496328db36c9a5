from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, TensorDataset
from torch.utils.data import Dataset as TorchDataset

from ctrobust.data import Dataset, as_examples, load, to_float
from ctrobust.errors import InputError

IMAGES = torch.randint(0, 256, (10, 3, 5, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(10) % 3
X = IMAGES.numpy()
PAIR = TensorDataset(IMAGES, LABELS)


class Pairs(TorchDataset[Any]):
    """A data set that returns one item for every index."""

    def __init__(self, *items: object) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> object:
        return self.items[index]


class Stream(IterableDataset[Any]):
    """A data set without a length, which counts how many examples were read."""

    read = 0

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            self.read += 1
            yield IMAGES[0], LABELS[0]


FORMS: dict[str, Any] = {
    "loader": DataLoader(PAIR, batch_size=4),
    "tensor data set": PAIR,
    "torch data set": Pairs(*((IMAGES[i], int(LABELS[i])) for i in range(10))),
    "tensors": (IMAGES, LABELS),
    "list of tensors": [IMAGES, LABELS.to(torch.int32)],
    "arrays, channels first": (X, LABELS.numpy()),
    "arrays, channels last": (X.transpose(0, 2, 3, 1), LABELS.numpy().astype(">i2")),
    "list of labels": (X, LABELS.tolist()),
    "read-only": (np.frombuffer(X.tobytes(), np.uint8).reshape(X.shape), LABELS.numpy().astype(np.uint64)),
    "data set": Dataset("dots", "test", IMAGES, LABELS, ("a", "b", "c"), (0.0,) * 3, (1.0,) * 3, verified=False),
}


@pytest.mark.parametrize("limit", [None, 1, 4, 7, 10, 99])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_examples(form: str, limit: int | None) -> None:
    images, labels = as_examples(FORMS[form], limit)
    assert images.dtype == torch.uint8
    assert labels.dtype == torch.int64
    assert torch.equal(images, IMAGES[:limit])
    assert torch.equal(labels, LABELS[:limit])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4", np.longdouble])
def test_floats_become_float32(dtype: Any) -> None:
    values = X / np.float32(255)
    for data in ((values.astype(dtype), LABELS), DataLoader(TensorDataset(torch.from_numpy(values), LABELS))):
        images, _ = as_examples(data)
        assert images.dtype == torch.float32
        assert torch.allclose(images, to_float(IMAGES), atol=1e-3)


@pytest.mark.parametrize("images", [X[:, 0], IMAGES[:, 0]], ids=["array", "tensor"])
def test_three_axes_are_images_of_one_channel(images: Any) -> None:
    assert torch.equal(as_examples((images, LABELS))[0], IMAGES[:, :1])


def test_tensors_may_have_any_number_of_channels() -> None:
    assert as_examples((torch.zeros(4, 5, 8, 8), LABELS[:4]))[0].shape == (4, 5, 8, 8)
    assert as_examples((torch.zeros(4, 3, 3, 3), LABELS[:4]))[0].shape == (4, 3, 3, 3)


def test_gradients_are_detached() -> None:
    x = torch.rand(4, 1, 2, 2, requires_grad=True)
    assert not as_examples((x, LABELS[:4]))[0].requires_grad


def test_a_loader_is_read_until_there_are_enough_examples() -> None:
    stream = Stream()
    assert len(as_examples(DataLoader(stream, batch_size=4), limit=10)[1]) == 10
    assert stream.read == 12


def test_a_loaded_data_set_is_not_copied() -> None:
    digits = load("digits", "test")
    images, labels = as_examples(digits, 50)
    assert (len(images), len(labels)) == (50, 50)
    assert images.data_ptr() == digits.images.data_ptr()


REFUSED: dict[str, tuple[Any, str]] = {
    "none": (None, "cannot read examples from a NoneType; expected a ctrobust Dataset, a DataLoader"),
    "images alone": (IMAGES, r"cannot read examples from a Tensor; expected .* a pair \(images, labels\)"),
    "array alone": (X, "cannot read examples from a ndarray"),
    "three": ((IMAGES, LABELS, LABELS), "cannot read examples from a tuple of 3"),
    "three tensors": (TensorDataset(IMAGES, LABELS, LABELS), "cannot read examples from a tuple of 3"),
    "name": ("digits", "cannot read examples from a str"),
    "dictionaries": (Pairs({"x": IMAGES[0], "y": 0}), "the DataLoader yields a dict; expected batches"),
    "images of a loader": (DataLoader(Pairs(*IMAGES)), "the DataLoader yields a Tensor; expected batches"),
    "three of a loader": (DataLoader(Pairs((IMAGES[0], 0, 1))), "the DataLoader yields a list of 3"),
    "pictures": (DataLoader(Pairs((object(), 0))), "the data set cannot be batched: .*; expected images as tensors"),
    "empty loader": (DataLoader(Pairs()), "the DataLoader yields no batch"),
    "sizes": (
        DataLoader(Pairs((IMAGES[0], 0), (IMAGES[0, :, :2], 1))),
        r"yields images of torch.uint8 \(3, 2, 4\) and torch.uint8 \(3, 5, 4\); expected one shape",
    ),
    "types": (DataLoader(Pairs((IMAGES[0], 0), (IMAGES[0] / 255, 1))), "yields images of torch.float32 .*torch.uint8"),
    "objects": ((np.array([None] * 4), [0] * 4), "images are an array of object; expected numbers"),
    "object labels": ((X[:2], np.array([{}, {}])), "labels are an array of object; expected numbers"),
    "strings": ((X[:2], ["a", "b"]), "labels are an array of <U1; expected numbers"),
    "uneven": (([[1, 2], [3]], [0, 1]), "images are not an array"),
    "number": ((X, 3), "labels are a single int; expected an array"),
    "counts": ((X, LABELS[:4]), "there are 10 images and 4 labels; expected equal numbers"),
    "no images": ((X[:0], LABELS[:0]), "there are 0 images and 0 labels"),
    "no pixels": ((X[:, :, :0], LABELS), r"images are torch.uint8 \(10, 3, 0, 4\); expected .* not empty"),
    "int images": ((IMAGES.long(), LABELS), r"images are torch.int64 \(10, 3, 5, 4\); expected uint8, or floats"),
    "bool images": ((X > 9, LABELS), "images are torch.bool"),
    "flat": ((X.reshape(10, 60), LABELS), r"images are torch.uint8 \(10, 60\); expected \(N, H, W\)"),
    "0 to 255": ((X.astype(np.float32), LABELS), r"from \d+ to 25\d; expected \[0, 1\] \(divide them by 255\)"),
    "normalized": ((IMAGES / 255 - 0.5, LABELS), r"from -0.5 to .*; expected \[0, 1\] \(normalize inside the model\)"),
    "not a number": ((torch.full((1, 1, 2, 2), torch.nan), [0]), r"values from nan to nan; expected \[0, 1\]"),
    "tensor, channels last": ((IMAGES.permute(0, 2, 3, 1), LABELS), r"permute\(0, 3, 1, 2\) makes it so"),
    "ambiguous": ((np.zeros((2, 3, 3, 3)), [0, 1]), "both of 3 and 3 can be the number of channels; expected 1 or 3"),
    "five channels": ((np.zeros((2, 5, 8, 8)), [0, 1]), "neither of 5 and 8 can be the number of channels"),
    "one-hot": ((X, np.eye(10)), r"labels are torch.float32 \(10, 10\); .*argmax\(1\) makes labels of one-hot rows"),
    "float labels": ((X, LABELS.float()), r"labels are torch.float32 \(10,\); expected integers \(N,\)"),
    "bool labels": ((X, LABELS > 0), "labels are torch.bool"),
    "negative": ((X, LABELS - 1), "labels have values from -1 to 1; expected classes from 0"),
}


@pytest.mark.parametrize(("data", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_other_data_are_refused(data: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        as_examples(data)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_refused(limit: int) -> None:
    with pytest.raises(InputError, match=f"limit must be at least 1; got {limit}"):
        as_examples(PAIR, limit)
