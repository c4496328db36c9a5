"""`npz:PATH`: a data set in one .npz file, as `numpy.savez` or `numpy.savez_compressed` writes it.

    images_train, labels_train, images_test, labels_test    or    images, labels (split by hash, see below)
    classes                                                 optional: the class names

Images are uint8: (N, H, W), or (N, H, W, C) or (N, C, H, W) with one or three channels. Where both of the last two fit,
as for 3 x 3 pixels, the array is refused. Labels are integers from 0; without `classes` every label up to the largest
must occur, and the names are the numbers. Images that are not split already are split by the hash of their contents,
about one in five to test: equal images of a class never come apart. Objects are never unpickled.
"""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ctrobust.data.dataset import Dataset
from ctrobust.data.holdout import held_out
from ctrobust.data.locator import parse_locator
from ctrobust.data.normalization import mean_std
from ctrobust.data.npy import Archive, Array, open_npz
from ctrobust.errors import DataError

MOST_BYTES = 16 << 30
_SPLIT = ("images_train", "labels_train", "images_test", "labels_test")
_WHOLE = ("images", "labels")
_CHANNELS = (1, 3)


def load_npz(name: str, split: str, limit: int = MOST_BYTES) -> Dataset:
    """Loads one split of `npz:PATH`, in the file's order; `verified` is false: nobody published a checksum.

    Mean and standard deviation are the training images'. Memory stays within about twice the images of the file, or
    where they are split already, of the larger split.

    Args:
        name: `npz:PATH`.
        split: "train" or "test".
        limit: the most bytes that all arrays together may take uncompressed.

    Raises:
        InputError: the name holds no path.
        DataError: the file is missing, damaged, or holds other arrays than those described above.
    """
    path = parse_locator(name).path
    with open_npz(path, limit) as archive:
        whole = _check_names(path, archive.arrays)
        parts = ("",) if whole else ("_train", "_test")
        labels = {part: _read_labels(path, archive, f"labels{part}") for part in parts}
        for part in parts:
            _check_images(path, archive.arrays[f"images{part}"], len(labels[part]))
        classes = _read_classes(path, archive, labels)
        _check_sizes(path, [archive.arrays[f"images{part}"] for part in parts])
        images = _read_images(archive, f"images{parts[0]}")
        if not whole:
            mean, std = mean_std(images)
            if split == "test":
                del images  # the two are never held together
                images = _read_images(archive, "images_test")
    if whole:
        return _split_by_hash(path, name, split, images, labels[""], classes)
    chosen = torch.from_numpy(labels[f"_{split}"])
    return Dataset(name, split, images, chosen, classes, mean, std, verified=False)


def _split_by_hash(
    path: Path, name: str, split: str, images: Tensor, labels: NDArray[np.int64], classes: tuple[str, ...]
) -> Dataset:
    digests = [hashlib.sha256(np.ascontiguousarray(image).data).digest() for image in images.numpy()]
    test = held_out(digests, labels)
    chosen = test == (split == "test")
    if not chosen.any():
        raise DataError(f"{path}: none of {len(labels)} images falls to {split} by its hash; name the splits' arrays")
    mean, std = mean_std(images, ~test)
    index = torch.from_numpy(np.flatnonzero(chosen))
    picked = torch.from_numpy(labels)[index]
    return Dataset(name, split, images.index_select(0, index), picked, classes, mean, std, verified=False)


def _check_names(path: Path, arrays: dict[str, Array]) -> bool:
    """Whether the file leaves the split to us; refuses any other set of arrays than the two described."""
    names = set(arrays) - {"classes"}
    if names != set(_WHOLE) and names != set(_SPLIT):
        found = ", ".join(sorted(arrays)[:12]) or "none"
        raise DataError(
            f"{path}: arrays {found}; expected {' and '.join(_WHOLE)}, or {', '.join(_SPLIT)}; optionally classes"
        )
    return names == set(_WHOLE)


def _check_images(path: Path, array: Array, labels: int) -> None:
    shape, where = array.shape, f"{path}: {array.name} is {array.described}"
    if array.dtype != np.uint8 or len(shape) not in (3, 4):
        raise DataError(f"{where}, expected uint8 (N, H, W), (N, H, W, C) or (N, C, H, W)")
    if 0 in shape:
        raise DataError(f"{where}, expected at least one image of at least one pixel")
    if len(shape) == 4 and (shape[1] in _CHANNELS) == (shape[3] in _CHANNELS):
        found = "both could be" if shape[1] in _CHANNELS else "neither can be"
        raise DataError(f"{where}: of the sizes {shape[1]} and {shape[3]} {found} the channels, expected one of 1 or 3")
    if shape[0] != labels:
        raise DataError(f"{where}, but there are {labels} labels")


def _check_sizes(path: Path, arrays: list[Array]) -> None:
    """Refuses parts whose images differ in channels, height or width."""
    sizes = []
    for array in arrays:
        shape = array.shape if len(array.shape) == 4 else (array.shape[0], 1, *array.shape[1:])
        sizes.append(shape[1:] if shape[1] in _CHANNELS else (shape[3], *shape[1:3]))
    if len(set(sizes)) > 1:
        found = " and ".join(f"{array.name} is {array.described}" for array in arrays)
        raise DataError(f"{path}: {found}, expected images of one size")


def _read_images(archive: Archive, name: str) -> Tensor:
    """The images as (N, C, H, W), without a copy: (N, H, W, C) in memory is channels last."""
    array = archive.arrays[name]
    images = torch.from_numpy(archive.read(array))
    if images.ndim == 3:
        return images.unsqueeze(1)
    return images if array.shape[1] in _CHANNELS else images.permute(0, 3, 1, 2)


def _read_labels(path: Path, archive: Archive, name: str) -> NDArray[np.int64]:
    array = archive.arrays[name]
    if array.dtype.kind not in "iu" or len(array.shape) != 1 or 0 in array.shape:
        raise DataError(f"{path}: {name} is {array.described}, expected integers (N,), at least one")
    values = archive.read(array)
    if int(values.min()) < 0 or int(values.max()) >= 2**31:
        raise DataError(f"{path}: {name} holds {values.min()} to {values.max()}, expected classes from 0")
    return values.astype(np.int64)


def _read_classes(path: Path, archive: Archive, labels: dict[str, NDArray[np.int64]]) -> tuple[str, ...]:
    most = max(int(values.max()) for values in labels.values())
    if "classes" not in archive.arrays:
        present = np.unique(np.concatenate(list(labels.values())))
        if len(present) != most + 1:
            missing = int(np.flatnonzero(present != np.arange(len(present)))[0])
            found = f"there is a label {most}, but no label {missing}"
            raise DataError(f"{path}: {found}; expected all from 0, or an array classes that names them")
        return tuple(map(str, range(most + 1)))
    array: Any = archive.arrays["classes"]
    if array.dtype.kind != "U" or len(array.shape) != 1:
        raise DataError(f"{path}: classes is {array.described}, expected strings (C,)")
    names = tuple(archive.read(array).tolist())
    if most >= len(names):
        raise DataError(f"{path}: label {most}, expected 0 to {len(names) - 1}, as there are {len(names)} classes")
    if len(set(names)) != len(names) or "" in names:
        raise DataError(f"{path}: classes must be {len(names)} different names, none of them empty")
    return names
