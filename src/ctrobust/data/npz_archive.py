"""Untrusted .npz files of data: NumPy reads the values, and unpickles nothing."""

import errno
import io
import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctrobust.array_archive import ARCHIVE_ERRORS, ArrayHeader, read_headers
from ctrobust.data.locate import open_regular_file
from ctrobust.errors import DataError

_MOST_AT_ONCE = 1 << 20


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
                headers = read_headers(archive, path.stat().st_size, limit)
            _check_names(path, headers, allowed)
            with np.load(file, allow_pickle=False) as arrays:
                yield arrays, headers
        except MemoryError as error:
            raise DataError(f"{path}: the arrays do not fit into memory") from error
        except (*ARCHIVE_ERRORS, OSError) as error:
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


def _check_names(path: Path, headers: Mapping[str, ArrayHeader], allowed: Collection[Collection[str]]) -> None:
    if set(headers) - {"classes"} not in [set(names) for names in allowed]:
        found = f"holds the arrays {', '.join(sorted(headers)[:12])}" if headers else "holds no arrays"
        expected = ", or ".join(", ".join(names) for names in allowed)
        raise DataError(f"{path} {found}; expected {expected}; optionally also classes")
