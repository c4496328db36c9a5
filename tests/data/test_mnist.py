import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ctrobust.data import mnist
from ctrobust.data.idx import idx_header, idx_sha256
from ctrobust.data.mnist import FASHION_MNIST, FILES, MNIST, load_mnist
from ctrobust.errors import DataError

Write = Callable[..., None]


@pytest.fixture
def folder(places: dict[str, Path]) -> Path:
    return places["system"] / "fashion-mnist"


@pytest.mark.parametrize("gz", [True, False])
@pytest.mark.parametrize(("split", "prefix"), [("train", "train"), ("test", "t10k")])
def test_a_split_needs_only_its_own_two_files(
    folder: Path, write_split: Write, split: str, prefix: str, gz: bool
) -> None:
    write_split(folder, prefix, 20, gz=gz)
    assert len(list(folder.iterdir())) == 2
    data = load_mnist(FASHION_MNIST, split)
    assert data.images.shape == (20, 1, 28, 28)
    assert torch.equal(data.images[:, 0, 5, 7], torch.arange(20, dtype=torch.uint8))
    assert torch.equal(data.labels, torch.arange(20) % 10)
    assert (data.name, data.split, data.mean, data.std) == ("fashion-mnist", split, (0.2860,), (0.3530,))
    assert data.classes[0] == "T-shirt/top"
    assert not data.verified


def test_only_the_published_contents_are_verified(folder: Path, write_split: Write) -> None:
    write_split(folder, "t10k", 20)
    data = load_mnist(FASHION_MNIST, "test")
    images, labels = FILES["test"]
    published = {images: idx_sha256(data.images[:, 0].numpy()), labels: idx_sha256(data.labels.numpy().astype("u1"))}
    own = mnist.Published("fashion-mnist", FASHION_MNIST.classes, 0.5, 0.5, published)
    assert load_mnist(own, "test").verified
    for name in (images, labels):  # one changed byte in either file, and either file's checksum alone is not enough
        path = folder / f"{name}.gz"
        original = path.read_bytes()
        content = bytearray(gzip.decompress(original))
        content[-1] ^= 1
        path.write_bytes(gzip.compress(bytes(content)))
        assert not load_mnist(own, "test").verified
        path.write_bytes(original)
    # Another compression of the same contents is still the published data.
    path.write_bytes(gzip.compress(gzip.decompress(original), compresslevel=1, mtime=7))
    assert path.read_bytes() != original
    assert load_mnist(own, "test").verified


def test_constants_are_complete() -> None:
    for published in (MNIST, FASHION_MNIST):
        assert set(published.sha256) == {name for names in FILES.values() for name in names}
        assert len(set(published.classes)) == 10
    digests = [digest for published in (MNIST, FASHION_MNIST) for digest in published.sha256.values()]
    assert len(set(digests)) == 8
    assert all(len(bytes.fromhex(digest)) == 32 for digest in digests)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": [1] * 19}, r"train-images-idx3-ubyte.gz holds 20 images, but .*train-labels.*\.gz 19 labels"),
        ({"labels": [1] * 19 + [10]}, r"train-labels-idx1-ubyte.gz: label 10, expected 0 to 9"),
        ({"labels": [[1]] * 20}, r"train-labels.*: the header claims 20 x 1 values, expected at most 60000"),
    ],
)
def test_labels_that_do_not_fit_are_refused(
    folder: Path, write_split: Write, options: dict[str, Any], message: str
) -> None:
    write_split(folder, "train", 20, **options)
    with pytest.raises(DataError, match=message):
        load_mnist(FASHION_MNIST, "train")


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((20, 28, 27), "images of 28 x 27, expected 28 x 28"),
        ((20, 32, 32), "the header claims 20 x 32 x 32 values, expected at most 60000 x 28 x 28"),
        ((20,), "the header claims 20 values, expected at most 60000 x 28 x 28"),
        ((60_001, 28, 28), "the header claims 60001 x 28 x 28 values, expected at most 60000 x 28 x 28"),
    ],
)
def test_images_that_do_not_fit_are_refused(
    folder: Path, write_split: Write, shape: tuple[int, ...], message: str
) -> None:
    write_split(folder, "train", 20)
    values = bytes(np.prod(shape)) if shape[0] == 20 else b""
    (folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx_header(shape) + values))
    with pytest.raises(DataError, match=message):
        load_mnist(FASHION_MNIST, "train")


def test_a_folder_in_place_of_a_file_is_named(folder: Path) -> None:
    for name in FILES["train"]:
        (folder / f"{name}.gz").mkdir(parents=True)
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte.gz is a folder"):
        load_mnist(FASHION_MNIST, "train")
