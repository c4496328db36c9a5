"""The IDX format of MNIST and its descendants: unsigned bytes behind a header of big-endian sizes.

    00 00 | type code: 08 is uint8 | number of dimensions | one 32-bit size per dimension | the values, row by row

A file is not trusted: memory is allocated for what was read, not for what the header declares.
"""

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from ctrobust.data.locate import open_regular_file
from ctrobust.errors import DataError

_UINT8 = 0x08
_MAX_DIMENSIONS = 4  # (N, C, H, W)
_CHUNK = 1 << 20


def read_idx(path: Path | str, at_most: tuple[int, ...] | None = None) -> NDArray[np.uint8]:
    """Read an IDX file of unsigned bytes, gzip-compressed exactly if its name ends in `.gz`.

    If `at_most` is given, the array must have as many dimensions, none larger. Memory stays within about twice the
    array's size, and no more is decompressed than the header declares, except for the decompressor's read buffer.
    """
    path = Path(path)
    with open_regular_file(path, "an IDX file") as file:
        if path.suffix != ".gz":
            return _parse(file, path, at_most)
        try:
            with gzip.GzipFile(fileobj=file) as unzipped:
                return _parse(cast("BinaryIO", unzipped), path, at_most)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            found = f"the gzip data is damaged, cut short or followed by other bytes ({error})"
            raise DataError(f"{path}: {found}") from error


def _parse(file: BinaryIO, path: Path, at_most: tuple[int, ...] | None) -> NDArray[np.uint8]:
    shape = _read_shape(file, path)
    described, size = " x ".join(map(str, shape)), math.prod(shape)
    if at_most is not None and (
        len(shape) != len(at_most) or any(size > most for size, most in zip(shape, at_most, strict=True))
    ):
        allowed = " x ".join(map(str, at_most))
        raise DataError(f"{path}: the header declares {described} values, expected at most {allowed}")
    values = bytearray()
    while len(values) < size:
        chunk = file.read(min(_CHUNK, size - len(values)))
        if not chunk:
            raise DataError(f"{path} is cut short: {len(values)} bytes of values, expected {described} = {size}")
        values += chunk
    if file.read(1):  # at the end of gzip data this also checks its checksum
        raise DataError(f"{path} is too long: bytes follow the {described} = {size} values that the header declares")
    return np.frombuffer(values, dtype=np.uint8).reshape(shape)


def _read_shape(file: BinaryIO, path: Path) -> tuple[int, ...]:
    magic = file.read(4)
    if not magic:
        raise DataError(f"{path} is empty; expected an IDX file")
    if len(magic) < 4 or magic[:2] != b"\0\0":
        hint = ", which is gzip: its name must end in .gz" if magic[:2] == b"\x1f\x8b" else ""
        found = f"it starts with bytes {magic.hex(' ')}, expected 00 00 08 and a count{hint}"
        raise DataError(f"{path} is not an IDX file: {found}")
    code, dimensions = magic[2], magic[3]
    if code != _UINT8:
        raise DataError(f"{path}: type code 0x{code:02x}, expected 0x{_UINT8:02x} (unsigned bytes)")
    if not 1 <= dimensions <= _MAX_DIMENSIONS:
        raise DataError(f"{path}: {dimensions} dimensions, expected 1 to {_MAX_DIMENSIONS}")
    sizes = file.read(4 * dimensions)
    if len(sizes) < 4 * dimensions:
        raise DataError(f"{path} is cut short: {len(sizes)} bytes of sizes, expected {4 * dimensions}")
    shape: tuple[int, ...] = struct.unpack(f">{dimensions}I", sizes)
    if 0 in shape:
        raise DataError(f"{path}: the header declares {' x '.join(map(str, shape))} values, expected at least one")
    return shape
