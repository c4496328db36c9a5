"""`npz:PATH`: a data set in one .npz file, as `numpy.savez` or `numpy.savez_compressed` writes it.

    images_train, labels_train, images_test, labels_test    or    images, labels (split by hash, see below)
    classes                                                 optional: the class names

Images are uint8: (N, H, W), or (N, H, W, C) or (N, C, H, W) with one or three channels. An array that could be either,
as one of 3 x 3 pixels, is refused. Labels are integers from 0; without `classes` every label up to the largest must
occur, and the names are the numbers. Images without given splits are split by the hash of their contents, about one in
five to test: equal images of a class are in the same split.

NumPy reads the arrays and unpickles nothing. A file is not trusted: before an array is read, its header is compared
with the size of its zip entry, and that with the size of the file.
"""

import errno
import hashlib
import math
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import numpy as np
import torch
from numpy.lib import format as npy
from numpy.typing import NDArray
from torch import Tensor

from ctrobust.data.dataset import Dataset, mean_std
from ctrobust.data.holdout import held_out
from ctrobust.data.locate import open_regular_file, parse_locator
from ctrobust.errors import DataError

MOST_BYTES = 16 << 30
_MOST_AT_ONCE = 1 << 20
_DEFLATE_RATIO = 1032  # DEFLATE cannot compress further
_SPLIT = ("images_train", "labels_train", "images_test", "labels_test")
_WHOLE = ("images", "labels")
_CHANNELS = (1, 3)


def load_npz(name: str, split: str, limit: int = MOST_BYTES) -> Dataset:
    """Load one split of `npz:PATH`, in the file's order; `verified` is false, because no checksum was published.

    Mean and standard deviation are those of the training images. Memory stays within about twice the images of the
    file, or of the larger split if the splits are given.

    Args:
        name: `npz:PATH`.
        split: "train" or "test".
        limit: the most bytes that all arrays together may take uncompressed.

    Raises:
        InputError: the name holds no path.
        DataError: the file is missing, damaged, or holds other arrays than those described above.
    """
    path, _ = parse_locator(name)
    with _open(path, limit) as (archive, arrays):
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
    mean, std = mean_std(images[~test])
    return Dataset(
        name, split, images[chosen], torch.from_numpy(labels)[chosen], classes, mean, std, verified=False
    )  # fmt: skip


@dataclass(frozen=True)
class _Header:
    """An array's name, shape and type, read from its header before its values."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __str__(self) -> str:
        return f"{self.name} is {self.dtype} ({', '.join(map(str, self.shape))})"


@contextmanager
def _open(path: Path, limit: int) -> Iterator[tuple[Mapping[str, NDArray[Any]], dict[str, _Header]]]:
    """Open an .npz file, check the names and headers of its arrays, and yield the arrays, unread, with the headers."""
    with open_regular_file(path, "an .npz file") as file:
        try:
            with zipfile.ZipFile(cast("IO[bytes]", _Bounded(file, path))) as archive:
                headers = _read_headers(path, archive, path.stat().st_size, limit)
            file.seek(0)
            with np.load(file, allow_pickle=False) as arrays:
                yield arrays, headers
        except MemoryError as error:
            raise DataError(f"{path}: the arrays do not fit into memory") from error
        # These are the errors of zipfile, zlib and NumPy for damaged files.
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError, OverflowError, OSError) as error:
            if isinstance(error, OSError) and error.errno != errno.EINVAL:  # of a seek before the start of the file
                raise
            found = str(error) or type(error).__name__
            raise DataError(f"{path} is not an .npz file or is damaged ({found})") from error


class _Bounded:
    """A file of which at most a megabyte is read at once, because zipfile reads the directory of an archive whole."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file, self._path = file, path
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(_MOST_AT_ONCE + 1 if size < 0 else min(size, _MOST_AT_ONCE + 1))
        if len(data) > _MOST_AT_ONCE:
            raise DataError(f"{self._path}: the zip directory takes {size:,} bytes, expected at most {_MOST_AT_ONCE:,}")
        return data


def _read_headers(path: Path, archive: zipfile.ZipFile, size: int, limit: int) -> dict[str, _Header]:
    entries = archive.infolist()
    total = sum(entry.file_size for entry in entries)
    if total > limit:
        raise DataError(f"{path}: the arrays take {total:,} bytes, expected at most {limit:,}")
    named: dict[str, zipfile.ZipInfo] = {}
    for entry in entries:
        name = entry.filename.removesuffix(".npy")
        if name in named or name == entry.filename:
            found = "twice" if name in named else "of another kind"
            raise DataError(f"{path}: an entry {entry.filename[:80]!r} {found}, expected arrays NAME.npy, each once")
        named[name] = entry
    if set(named) - {"classes"} not in (set(_WHOLE), set(_SPLIT)):
        found = f"holds the arrays {', '.join(sorted(named)[:12])}" if named else "holds no arrays"
        raise DataError(
            f"{path} {found}; expected {' and '.join(_WHOLE)}, or {', '.join(_SPLIT)}; optionally also classes"
        )
    for entry in entries:
        most = entry.compress_size * (_DEFLATE_RATIO if entry.compress_type == zipfile.ZIP_DEFLATED else 1)
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or entry.flag_bits & 1:
            raise DataError(f"{path}: {entry.filename} is encrypted or compressed in another way than NumPy's")
        if entry.compress_size > size or entry.file_size > most:
            raise DataError(f"{path} is damaged: {entry.filename} cannot hold {entry.file_size:,} bytes")
    return {name: _read_header(path, archive, name, entry) for name, entry in named.items()}


def _read_header(path: Path, archive: zipfile.ZipFile, name: str, entry: zipfile.ZipInfo) -> _Header:
    with archive.open(entry) as file:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of NumPy about headers of Python 2, and of Python about odd literals
                version = npy.read_magic(file)
                read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
                shape, _, dtype = read(file)
        # These are the errors of NumPy's parser, which is Python's, for damaged headers.
        except (ValueError, TypeError, SyntaxError, tokenize.TokenError, MemoryError, RecursionError) as error:
            raise DataError(f"{path}: {name} is not a readable array ({str(error)[:200]})") from error
        held = entry.file_size - file.tell()
    header = _Header(name, shape, dtype)
    if dtype.hasobject:
        raise DataError(f"{path}: {header}, but Python objects are never read")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != held:
        raise DataError(f"{path}: {header}, {math.prod(shape) * dtype.itemsize} bytes, but the file holds {held}")
    return header


def _check_images(path: Path, header: _Header, labels: int) -> None:
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


def _check_sizes(path: Path, headers: list[_Header]) -> None:
    sizes = set()
    for header in headers:
        shape = header.shape if len(header.shape) == 4 else (header.shape[0], 1, *header.shape[1:])
        sizes.add(shape[1:] if shape[1] in _CHANNELS else (shape[3], *shape[1:3]))
    if len(sizes) > 1:
        raise DataError(f"{path}: {' and '.join(map(str, headers))}, expected images of one size")


def _read_images(archive: Mapping[str, NDArray[Any]], header: _Header) -> Tensor:
    """Read images as (N, C, H, W), with the strides of channels last if they are stored so."""
    images = torch.from_numpy(np.ascontiguousarray(archive[header.name]))
    if images.ndim == 3:
        return images.unsqueeze(1)
    return images if header.shape[1] in _CHANNELS else images.permute(0, 3, 1, 2)


def _read_labels(path: Path, archive: Mapping[str, NDArray[Any]], header: _Header) -> NDArray[np.int64]:
    if header.dtype.kind not in "iu" or len(header.shape) != 1 or 0 in header.shape:
        raise DataError(f"{path}: {header}, expected integers (N,), at least one")
    values = archive[header.name]
    if int(values.min()) < 0 or int(values.max()) >= 2**31:
        raise DataError(f"{path}: {header.name} holds {values.min()} to {values.max()}, expected classes from 0")
    return values.astype(np.int64)


def _read_classes(
    path: Path,
    archive: Mapping[str, NDArray[Any]],
    headers: dict[str, _Header],
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
    names = tuple(archive["classes"].tolist())
    if most >= len(names):
        raise DataError(f"{path}: label {most}, expected 0 to {len(names) - 1}, as there are {len(names)} classes")
    if len(set(names)) != len(names) or "" in names:
        raise DataError(f"{path}: classes must be {len(names)} different names, none of them empty")
    return names
