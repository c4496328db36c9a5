"""`npz:PATH`: a data set in one .npz file, as `numpy.savez` or `numpy.savez_compressed` writes it.

    images_train, labels_train, images_test, labels_test    or    images, labels (split by hash, see below)
    classes                                                 optional: the class names

Images are uint8: (N, H, W), or (N, H, W, C) or (N, C, H, W) with one or three channels. An array that could be either,
as one of 3 x 3 pixels, is refused. Labels are integers from 0; without `classes` every label up to the largest must
occur, and the names are the numbers. Images without given splits are split by the hash of their contents, about one in
five to test: equal images of a class are in the same split.
"""

import hashlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ctrobust.array_archive import ArrayHeader
from ctrobust.data.dataset import Dataset, mean_std, printable_name
from ctrobust.data.holdout import held_out
from ctrobust.data.locate import parse_locator
from ctrobust.data.npz_archive import open_npz
from ctrobust.errors import DataError

MOST_BYTES = 16 << 30
_SPLIT = ("images_train", "labels_train", "images_test", "labels_test")
_WHOLE = ("images", "labels")
_CHANNELS = (1, 3)


def load_npz(name: str, split: str, limit: int = MOST_BYTES) -> Dataset:
    """Load one split of `npz:PATH`, in the file's order; `verified` is false, because no checksum was published.

    Mean and standard deviation are those of the training images. All arrays together may take `limit` bytes. Memory
    stays within about twice the images of the file, or of the larger split if the splits are given.
    """
    path, _ = parse_locator(name)
    with open_npz(path, limit, (_WHOLE, _SPLIT)) as (archive, arrays):
        suffixes = ("",) if "images" in arrays else ("_train", "_test")
        labels = {suffix: _read_labels(path, archive, arrays[f"labels{suffix}"]) for suffix in suffixes}
        for suffix in suffixes:
            _check_images(path, arrays[f"images{suffix}"], len(labels[suffix]))
        classes = _read_classes(path, archive, arrays, labels)
        _check_sizes(path, [arrays[f"images{suffix}"] for suffix in suffixes])
        images = _read_images(archive, arrays[f"images{suffixes[0]}"])
        if "images" in arrays:
            return _split_by_hash(path, name, split, images, labels[""], classes)
        mean, std = mean_std(images)
        if split == "test":
            del images  # the two are never held together
            images = _read_images(archive, arrays["images_test"])
    return Dataset(name, split, images, torch.from_numpy(labels[f"_{split}"]), classes, mean, std, verified=False)


def _split_by_hash(
    path: Path, name: str, split: str, images: Tensor, labels: NDArray[np.int64], classes: tuple[str, ...]
) -> Dataset:
    digests = [hashlib.sha256(np.ascontiguousarray(image).data).digest() for image in images.numpy()]
    test = torch.from_numpy(held_out(digests, labels))
    chosen = test if split == "test" else ~test
    if not chosen.any():
        raise DataError(f"{path}: none of {len(labels)} images is in {split} by its hash; name the splits' arrays")
    train = images[~test]
    mean, std = mean_std(train)
    picked = images[test] if split == "test" else train
    return Dataset(name, split, picked, torch.from_numpy(labels)[chosen], classes, mean, std, verified=False)


def _check_images(path: Path, header: ArrayHeader, labels: int) -> None:
    shape = header.shape
    if header.dtype != np.uint8 or len(shape) not in (3, 4):
        raise DataError(f"{path}: {header}, expected uint8 (N, H, W), (N, H, W, C) or (N, C, H, W)")
    if 0 in shape:
        raise DataError(f"{path}: {header}, expected at least one image of at least one pixel")
    if len(shape) == 4 and (shape[1] in _CHANNELS) == (shape[3] in _CHANNELS):
        found = "both could be" if shape[1] in _CHANNELS else "neither can be"
        sizes = f"of the sizes {shape[1]} and {shape[3]} {found} the channels"
        raise DataError(f"{path}: {header}: {sizes}, expected one of 1 or 3")
    if shape[0] != labels:
        raise DataError(f"{path}: {header}, but there are {labels} labels")


def _check_sizes(path: Path, headers: list[ArrayHeader]) -> None:
    sizes = set()
    for header in headers:
        shape = header.shape if len(header.shape) == 4 else (header.shape[0], 1, *header.shape[1:])
        sizes.add(shape[1:] if shape[1] in _CHANNELS else (shape[3], *shape[1:3]))
    if len(sizes) > 1:
        raise DataError(f"{path}: {' and '.join(map(str, headers))}, expected images of one size")


def _read_images(archive: Mapping[str, NDArray[Any]], header: ArrayHeader) -> Tensor:
    """Read images as (N, C, H, W), with the strides of channels last if they are stored so."""
    images = torch.from_numpy(np.ascontiguousarray(archive[header.name]))
    if images.ndim == 3:
        return images.unsqueeze(1)
    return images if header.shape[1] in _CHANNELS else images.permute(0, 3, 1, 2)


def _read_labels(path: Path, archive: Mapping[str, NDArray[Any]], header: ArrayHeader) -> NDArray[np.int64]:
    if header.dtype.kind not in "iu" or len(header.shape) != 1 or 0 in header.shape:
        raise DataError(f"{path}: {header}, expected integers (N,), at least one")
    values = archive[header.name]
    if int(values.min()) < 0 or int(values.max()) >= 2**31:
        raise DataError(f"{path}: {header.name} holds {values.min()} to {values.max()}, expected classes from 0")
    return values.astype(np.int64)


def _read_classes(
    path: Path,
    archive: Mapping[str, NDArray[Any]],
    headers: dict[str, ArrayHeader],
    labels: dict[str, NDArray[np.int64]],
) -> tuple[str, ...]:
    most = max(int(values.max()) for values in labels.values())
    if "classes" not in headers:
        present = np.unique(np.concatenate(list(labels.values())))
        if len(present) != most + 1:
            missing = int(np.flatnonzero(present != np.arange(len(present)))[0])
            found = f"there is a label {most}, but no label {missing}"
            raise DataError(f"{path}: {found}; expected all from 0, or an array classes that names them")
        return tuple(map(str, range(most + 1)))
    header = headers["classes"]
    if header.dtype.kind != "U" or len(header.shape) != 1:
        raise DataError(f"{path}: {header}, expected strings (C,)")
    names = tuple(map(printable_name, _decode_names(path, archive["classes"])))
    if most >= len(names):
        raise DataError(f"{path}: label {most}, expected 0 to {len(names) - 1}, as there are {len(names)} classes")
    if len(set(names)) != len(names) or "" in names:
        raise DataError(f"{path}: classes must be {len(names)} different names, none of them empty")
    return names


def _decode_names(path: Path, names: NDArray[np.str_]) -> list[str]:
    """Return the strings of an array, whose values may be no code points of Unicode."""
    points = np.frombuffer(names.tobytes(), np.dtype(np.uint32).newbyteorder(names.dtype.byteorder))
    if points.size and points.max() > sys.maxunicode:
        raise DataError(f"{path}: classes holds a name with the code point {points.max()}, which is not Unicode")
    return [str(name) for name in names.tolist()]
