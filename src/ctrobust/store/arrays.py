"""Per-example arrays in .npz files, without objects."""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctrobust.errors import RunError
from ctrobust.store.atomic import write_atomic


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write named arrays, compressed, atomically."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    write_atomic(path, buffer.getvalue())


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a file that `write_arrays` wrote."""
    try:
        # opened here: numpy leaves its own file open when the archive is cut short
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, KeyError) as error:
        raise RunError(f"{path} is damaged: {error}; remove it to have it made again") from None
