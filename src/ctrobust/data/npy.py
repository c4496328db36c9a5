"""Arrays inside a .npz file, which is a zip of .npy files. Nothing in it is trusted, and objects are never read.

    93 "NUMPY" | version | header length | {'descr': type, 'fortran_order': bool, 'shape': sizes} | the values

What an array claims to be must be exactly what its zip entry claims to hold, and no more is allocated than was
actually decompressed.
"""

import ast
import errno
import math
import re
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from ctrobust.data.regular_file import open_regular_file
from ctrobust.errors import DataError

_MAGIC = b"\x93NUMPY"
_DESCR = re.compile(r"[<>|=](?:[ui][1248]|U[0-9]{1,6})")
_LONGEST_HEADER = 10_000
_MOST_DIMENSIONS = 8
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Array:
    """An array of a .npz file, described by its header and not yet read."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran_order: bool
    entry: zipfile.ZipInfo
    start: int

    @property
    def described(self) -> str:
        """Its type and shape."""
        return f"{self.dtype} ({', '.join(map(str, self.shape))})"


class Archive:
    """An open .npz file."""

    def __init__(self, path: Path, zipped: zipfile.ZipFile, limit: int) -> None:
        self._path, self._zip = path, zipped
        entries = zipped.infolist()
        total = sum(entry.file_size for entry in entries)
        if total > limit:
            raise DataError(f"{path}: the arrays claim {total:,} bytes, expected at most {limit:,}")
        self.arrays: dict[str, Array] = {}
        for entry in entries:
            name = entry.filename.removesuffix(".npy")
            if name in self.arrays or name == entry.filename:
                found = "twice" if name in self.arrays else "of another kind"
                raise DataError(
                    f"{path}: an entry {_short(entry.filename)} {found}, expected arrays NAME.npy, each once"
                )
            self.arrays[name] = self._describe(name, entry)

    def read(self, array: Array) -> NDArray[Any]:
        """Reads an array's values. Those in Fortran order are brought into C order, at twice their memory."""
        values = bytearray()
        with self._zip.open(array.entry) as file:
            file.read(array.start)
            while chunk := file.read(_CHUNK):  # checks the entry's CRC at its end
                values += chunk
        if len(values) != array.entry.file_size - array.start:
            found = f"{len(values)} bytes of values, expected {array.entry.file_size - array.start}"
            raise DataError(f"{self._path}: {array.name} is cut short: {found}")
        order = "F" if array.fortran_order else "C"
        return np.ascontiguousarray(np.frombuffer(values, array.dtype).reshape(array.shape, order=cast("Any", order)))

    def _describe(self, name: str, entry: zipfile.ZipInfo) -> Array:
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or entry.flag_bits & 1:
            raise DataError(f"{self._path}: {name} is encrypted or compressed otherwise than numpy does")
        with self._zip.open(entry) as file:
            start, header = _read_header(file, f"{self._path}: {name}")
        dtype: np.dtype[Any] = np.dtype(header["descr"])
        array = Array(name, header["shape"], dtype, header["fortran_order"], entry, start)
        claimed, held = math.prod(array.shape) * dtype.itemsize, entry.file_size - start
        if claimed != held:
            raise DataError(f"{self._path}: {name} claims {array.described}, {claimed} bytes, but {held} are there")
        return array


@contextmanager
def open_npz(path: Path, limit: int) -> Iterator[Archive]:
    """Opens a .npz file and reads the headers of its arrays.

    Args:
        path: the file.
        limit: the most bytes that all arrays together may take uncompressed.

    Raises:
        DataError: it cannot be read, is damaged, or holds anything but arrays of integers and strings.
    """
    with open_regular_file(path, "an .npz file") as file:
        try:
            with zipfile.ZipFile(cast("IO[bytes]", _Bounded(file, path))) as zipped:
                yield Archive(path, zipped, limit)
        except MemoryError as error:
            raise DataError(f"{path}: the arrays do not fit into memory") from error
        # What zipfile and zlib raise for damaged files, by experience.
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError, OverflowError, OSError) as error:
            if isinstance(error, OSError) and error.errno != errno.EINVAL:  # which is a place before the file's start
                raise
            found = str(error) or type(error).__name__
            raise DataError(f"{path} is not an .npz file or is damaged ({found})") from error


class _Bounded:
    """A file of which at most a chunk is read at once: zipfile reads an archive's directory whole, however large."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file, self._path = file, path
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(_CHUNK + 1 if size < 0 else min(size, _CHUNK + 1))
        if len(data) > _CHUNK:
            raise DataError(f"{self._path}: the zip directory takes {size:,} bytes, expected at most {_CHUNK:,}")
        return data


def _read_header(file: IO[bytes], where: str) -> tuple[int, dict[str, Any]]:
    """Reads up to the values: where they start, and the header, checked."""
    start = file.read(len(_MAGIC) + 2)
    if start[: len(_MAGIC)] != _MAGIC or len(start) < len(_MAGIC) + 2:
        raise DataError(f"{where} is not an array: it starts with bytes {start.hex(' ')}, expected {_MAGIC.hex(' ')}")
    version = start[-2]
    if version not in (1, 2, 3):
        raise DataError(f"{where}: .npy version {version}, expected 1, 2 or 3")
    width = 2 if version == 1 else 4
    length = int.from_bytes(file.read(width), "little")
    if length > _LONGEST_HEADER:
        raise DataError(f"{where}: a header of {length:,} bytes, expected at most {_LONGEST_HEADER:,}")
    text = file.read(length)
    if len(text) < length:
        raise DataError(f"{where} is cut short: {len(text)} bytes of header, expected {length}")
    return len(start) + width + length, _parse_header(text, where)


def _parse_header(text: bytes, where: str) -> dict[str, Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's, about odd literals
            header = ast.literal_eval(text.decode("latin-1").strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise DataError(f"{where}: the header {_short(text)} is no dictionary") from error
    if not isinstance(header, dict) or set(header) != {"descr", "fortran_order", "shape"}:
        raise DataError(f"{where}: the header {_short(text)} must have descr, fortran_order and shape")
    descr, shape = header["descr"], header["shape"]
    if not isinstance(descr, str) or not _DESCR.fullmatch(descr):
        raise DataError(f"{where}: values of type {_short(repr(descr))}, expected integers or strings, never objects")
    sizes = isinstance(shape, tuple) and len(shape) <= _MOST_DIMENSIONS and all(type(size) is int for size in shape)
    if not sizes or any(not 0 <= size < 2**63 for size in shape) or type(header["fortran_order"]) is not bool:
        raise DataError(f"{where}: shape {_short(repr(shape))}, fortran_order {_short(repr(header['fortran_order']))}")
    return header


def _short(text: bytes | str) -> str:
    shown = text.decode("latin-1") if isinstance(text, bytes) else text
    return repr(shown.strip()[:80])
