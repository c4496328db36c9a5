"""What an untrusted .npz file declares, checked before an array is read: .npz files are zip files of arrays.

The header of each array is compared with the size of its zip entry, and that with the size of the file. Nothing is
unpickled.
"""

import math
import tokenize
import warnings
import zipfile
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib import format as npy

_DEFLATE_RATIO = 1032  # DEFLATE cannot compress further

ARCHIVE_ERRORS = (
    zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError, OverflowError, KeyError,
)  # fmt: skip
"""What zipfile, zlib and NumPy raise for damaged files, besides OSError; RuntimeError includes NotImplementedError."""


@dataclass(frozen=True)
class ArrayHeader:
    """An array's name, shape and type, read from its header before its values."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __str__(self) -> str:
        return f"{self.name} is {self.dtype} ({', '.join(map(str, self.shape))})"

    @property
    def size(self) -> int:
        """The bytes of its values."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_headers(archive: zipfile.ZipFile, size: int, limit: int) -> dict[str, ArrayHeader]:
    """Read the header of every array of an archive of `size` bytes; raise a ValueError if they are impossible.

    All arrays together may take at most `limit` bytes.
    """
    entries = archive.infolist()
    total = sum(entry.file_size for entry in entries)
    if total > limit:
        raise ValueError(f"the arrays take {total:,} bytes, expected at most {limit:,}")
    named: dict[str, zipfile.ZipInfo] = {}
    for entry in entries:
        name = entry.filename.removesuffix(".npy")
        if name in named or name == entry.filename:
            found = "twice" if name in named else "of another kind"
            raise ValueError(f"an entry {entry.filename[:80]!r} {found}, expected arrays NAME.npy, each once")
        named[name] = entry
    for entry in entries:
        most = entry.compress_size * (_DEFLATE_RATIO if entry.compress_type == zipfile.ZIP_DEFLATED else 1)
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or entry.flag_bits & 1:
            raise ValueError(f"{entry.filename} is encrypted or compressed in another way than NumPy's")
        if entry.compress_size > size or entry.file_size > most:
            raise ValueError(f"{entry.filename} cannot hold {entry.file_size:,} bytes")
    return {name: _read_header(archive, name, entry) for name, entry in named.items()}


def _read_header(archive: zipfile.ZipFile, name: str, entry: zipfile.ZipInfo) -> ArrayHeader:
    with archive.open(entry) as file:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of NumPy about headers of Python 2, and of Python about odd literals
                version = npy.read_magic(file)
                read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
                shape, _, dtype = read(file)
        # These are the errors of NumPy's parser, which is Python's, for damaged headers.
        except (ValueError, TypeError, SyntaxError, tokenize.TokenError, MemoryError, RecursionError) as error:
            raise ValueError(f"{name} is not a readable array ({str(error)[:200]})") from error
        held = entry.file_size - file.tell()
    header = ArrayHeader(name, shape, dtype)
    if dtype.hasobject:
        raise ValueError(f"{header}, but Python objects are never read")
    if min(shape, default=0) < 0 or header.size != held:
        raise ValueError(f"{header}, {header.size} bytes, but the file holds {held}")
    return header
