"""Named arrays in .npz files, without Python objects."""

import hashlib
import io
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctrobust.errors import RunError
from ctrobust.store.atomic import write_atomic

Arrays = dict[str, NDArray[Any]]


def pack_arrays(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """The bytes of a compressed .npz file."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def unpack_arrays(content: bytes) -> Arrays:
    """The arrays of an .npz file's bytes; raises ValueError if they are damaged."""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, EOFError, KeyError, OSError, zlib.error, zipfile.BadZipFile, NotImplementedError) as error:
        raise ValueError(str(error) or type(error).__name__) from None


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> str:
    """Write named arrays, compressed, atomically; return the SHA-256 of the file."""
    content = pack_arrays(arrays)
    write_atomic(path, content)
    return hashlib.sha256(content).hexdigest()


def read_arrays(path: Path, sha256: str | None = None) -> Arrays:
    """Read the arrays of a file that `write_arrays` wrote, and check its SHA-256 where one is given."""
    try:
        content = path.read_bytes()
        if sha256 is not None and (found := hashlib.sha256(content).hexdigest()) != sha256:
            raise ValueError(f"its SHA-256 is {found[:16]}..., the record says {sha256[:16]}...")
        return unpack_arrays(content)
    except (OSError, ValueError) as error:
        raise RunError(f"{path} is damaged: {error}; remove it to have it made again") from None
