"""Untrusted .npz files, which are zip files of arrays: NumPy reads the values, and unpickles nothing.

Before an array is read, its header is compared with the size of its zip entry, and that with the size of the file.
"""

import errno
import io
import math
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from ctrobust.data.locate import open_regular_file
from ctrobust.errors import DataError

_MOST_AT_ONCE = 1 << 20
_DEFLATE_RATIO = 1032  # DEFLATE cannot compress further


@dataclass(frozen=True)
class ArrayHeader:
    """An array's name, shape and type, read from its header before its values."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __str__(self) -> str:
        return f"{self.name} is {self.dtype} ({', '.join(map(str, self.shape))})"


@contextmanager
def open_npz(
    path: Path, limit: int, allowed: Collection[Collection[str]]
) -> Iterator[tuple[Mapping[str, NDArray[Any]], dict[str, ArrayHeader]]]:
    """Open an .npz file of at most `limit` bytes uncompressed, and yield its arrays, not yet read, with their headers.

    The names of the arrays must be one of the sets `allowed`, to which "classes" may be added.
    """
    with open_regular_file(path, "an .npz file") as file:
        try:
            with _Bounded(path) as bounded, zipfile.ZipFile(bounded) as archive:
                headers = _read_headers(path, archive, limit, allowed)
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


class _Bounded(io.FileIO):
    """A file of which at most a megabyte is read at once, because zipfile reads the directory of an archive whole."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or not 0 <= size <= _MOST_AT_ONCE:
            size = _MOST_AT_ONCE + 1
        data = super().read(size) or b""
        if len(data) > _MOST_AT_ONCE:
            raise DataError(f"{self.name!s}: the zip directory takes more than {_MOST_AT_ONCE:,} bytes")
        return data


def _read_headers(
    path: Path, archive: zipfile.ZipFile, limit: int, allowed: Collection[Collection[str]]
) -> dict[str, ArrayHeader]:
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
    if set(named) - {"classes"} not in [set(names) for names in allowed]:
        found = f"holds the arrays {', '.join(sorted(named)[:12])}" if named else "holds no arrays"
        expected = ", or ".join(", ".join(names) for names in allowed)
        raise DataError(f"{path} {found}; expected {expected}; optionally also classes")
    for entry in entries:
        most = entry.compress_size * (_DEFLATE_RATIO if entry.compress_type == zipfile.ZIP_DEFLATED else 1)
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or entry.flag_bits & 1:
            raise DataError(f"{path}: {entry.filename} is encrypted or compressed in another way than NumPy's")
        if entry.compress_size > path.stat().st_size or entry.file_size > most:
            raise DataError(f"{path} is damaged: {entry.filename} cannot hold {entry.file_size:,} bytes")
    return {name: _read_header(path, archive, name, entry) for name, entry in named.items()}


def _read_header(path: Path, archive: zipfile.ZipFile, name: str, entry: zipfile.ZipInfo) -> ArrayHeader:
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
    header = ArrayHeader(name, shape, dtype)
    if dtype.hasobject:
        raise DataError(f"{path}: {header}, but Python objects are never read")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != held:
        raise DataError(f"{path}: {header}, {math.prod(shape) * dtype.itemsize} bytes, but the file holds {held}")
    return header
