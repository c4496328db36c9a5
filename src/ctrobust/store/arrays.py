"""Named arrays in .npz files, without Python objects."""

import hashlib
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctrobust.array_archive import ARCHIVE_ERRORS, read_headers
from ctrobust.errors import RunError
from ctrobust.regular_file import read_regular_file
from ctrobust.store.atomic import write_atomic

MOST_BYTES = 1 << 30
"""The most bytes of a file and of all its arrays: the class probabilities of 250,000 examples of 1,000 classes."""

Arrays = dict[str, NDArray[Any]]


def pack_arrays(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """The bytes of a compressed .npz file."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def unpack_arrays(content: bytes) -> Arrays:
    """The arrays of an .npz file's bytes, in native byte order; raises ValueError if they are damaged.

    What the file declares is checked first: a small file of zeros can declare arrays of gigabytes.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            headers = read_headers(archive, len(content), MOST_BYTES)
        if texts := [str(header) for header in headers.values() if not _is_number(header.dtype)]:
            raise ValueError(f"{texts[0]}, expected numbers")
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return {name: file[name].astype(headers[name].dtype.newbyteorder("="), copy=False) for name in headers}
    except (*ARCHIVE_ERRORS, OSError, MemoryError) as error:
        raise ValueError(str(error) or type(error).__name__) from None


def _is_number(dtype: np.dtype[Any]) -> bool:
    """Whether torch has the type too, in native byte order: no text, complex or extended number."""
    return dtype.kind in "biuf" and dtype.itemsize <= 8


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> str:
    """Write named arrays, compressed, atomically; return the SHA-256 of the file."""
    content = pack_arrays(arrays)
    write_atomic(path, content)
    return hashlib.sha256(content).hexdigest()


def read_arrays(path: Path, sha256: str | None = None) -> Arrays:
    """Read the arrays of a file that `write_arrays` wrote, and check its SHA-256 where one is given."""
    try:
        content = read_regular_file(path, MOST_BYTES)
        if sha256 is not None and (found := hashlib.sha256(content).hexdigest()) != sha256:
            raise ValueError(f"its SHA-256 is {found[:16]}..., the record says {sha256[:16]}...")
        return unpack_arrays(content)
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror or error}; remove it to have it made again") from None
    except ValueError as error:
        raise RunError(f"{path} is damaged: {error}; remove it to have it made again") from None
