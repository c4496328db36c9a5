import gzip
import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ctrobust.data.mnist import FASHION_MNIST, FILES
from ctrobust.data.published import Download, Published, is_verified, load_published
from ctrobust.errors import DataError
from tests.data.conftest import idx_header

Write = Callable[..., None]


@pytest.fixture
def folder(places: dict[str, Path]) -> Path:
    return places["system"] / "fashion-mnist"


@pytest.mark.parametrize("gz", [True, False])
@pytest.mark.parametrize(("split", "prefix"), [("train", "train"), ("test", "t10k")])
def test_a_split_needs_only_its_two_files(folder: Path, write_split: Write, split: str, prefix: str, gz: bool) -> None:
    write_split(folder, prefix, 20, gz=gz)
    assert len(list(folder.iterdir())) == 2
    data = load_published(FASHION_MNIST, split)
    assert data.images.shape == (20, 1, 28, 28)
    assert torch.equal(data.images[:, 0, 5, 7], torch.arange(20, dtype=torch.uint8))
    assert torch.equal(data.labels, torch.arange(20) % 10)
    assert (data.name, data.split, data.mean, data.std) == ("fashion-mnist", split, (0.2860,), (0.3530,))
    assert data.classes[0] == "T-shirt/top"
    assert not data.verified


def own_checksums(folder: Path) -> Published:
    """Return Fashion-MNIST with the SHA-256 of the uncompressed files in a folder, and no downloads."""
    sums = {path.stem: hashlib.sha256(gzip.decompress(path.read_bytes())).hexdigest() for path in folder.iterdir()}
    return replace(FASHION_MNIST, sha256=sums, downloads=())


def test_only_the_published_contents_are_verified(folder: Path, write_split: Write) -> None:
    write_split(folder, "t10k", 20)
    own = own_checksums(folder)
    assert load_published(own, "test").verified
    for name in FILES["test"]:  # one changed byte in either file
        path = folder / f"{name}.gz"
        original = path.read_bytes()
        content = bytearray(gzip.decompress(original))
        content[-1] ^= 1
        path.write_bytes(gzip.compress(bytes(content)))
        assert not load_published(own, "test").verified
        path.write_bytes(original)
    # Another compression of the same contents is still the published data.
    path.write_bytes(gzip.compress(gzip.decompress(original), compresslevel=1, mtime=7))
    assert path.read_bytes() != original
    assert load_published(own, "test").verified
    path.with_suffix("").write_bytes(gzip.decompress(original))
    path.unlink()
    assert load_published(own, "test").verified


def test_the_checksum_of_the_compressed_file_is_enough(folder: Path, write_split: Write) -> None:
    write_split(folder, "t10k", 20)
    files = tuple(Download(p.name, (), 0, hashlib.sha256(p.read_bytes()).hexdigest()) for p in folder.iterdir())
    own = replace(FASHION_MNIST, sha256={}, downloads=files)
    assert load_published(own, "test").verified
    for path in [*folder.iterdir()]:
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    assert not load_published(own, "test").verified


def test_damaged_and_endless_gzip_files_are_not_verified(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir(parents=True)
    path = folder / "train-images-idx3-ubyte.gz"
    for content in (b"", b"text", gzip.compress(bytes(1000))[:-9], gzip.compress(bytes(1000))):
        path.write_bytes(content)
        assert not is_verified(FASHION_MNIST, path)
    own = own_checksums(folder)
    assert is_verified(own, path)
    monkeypatch.setattr("ctrobust.data.published._MOST_BYTES", 999)
    assert not is_verified(own, path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": [1] * 19}, r"train-images-idx3-ubyte.gz holds 20 images, but .*train-labels.*\.gz 19 labels"),
        ({"labels": [1] * 19 + [10]}, r"train-labels-idx1-ubyte.gz: label 10, expected 0 to 9"),
        ({"labels": [[1]] * 20}, r"train-labels.*: the header declares 20 x 1 values, expected at most 60000"),
    ],
)
def test_invalid_labels_are_refused(folder: Path, write_split: Write, options: dict[str, Any], message: str) -> None:
    write_split(folder, "train", 20, **options)
    with pytest.raises(DataError, match=message):
        load_published(FASHION_MNIST, "train")


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((20, 28, 27), "images of 28 x 27, expected 28 x 28"),
        ((20, 32, 32), "the header declares 20 x 32 x 32 values, expected at most 60000 x 28 x 28"),
        ((20,), "the header declares 20 values, expected at most 60000 x 28 x 28"),
        ((60_001, 28, 28), "the header declares 60001 x 28 x 28 values, expected at most 60000 x 28 x 28"),
    ],
)
def test_invalid_images_are_refused(folder: Path, write_split: Write, shape: tuple[int, ...], message: str) -> None:
    write_split(folder, "train", 20)
    values = bytes(np.prod(shape)) if shape[0] == 20 else b""
    (folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx_header(shape) + values))
    with pytest.raises(DataError, match=message):
        load_published(FASHION_MNIST, "train")


def test_a_folder_in_place_of_a_file_is_reported(folder: Path) -> None:
    for name in FILES["train"]:
        (folder / f"{name}.gz").mkdir(parents=True)
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte.gz is a folder"):
        load_published(FASHION_MNIST, "train")
