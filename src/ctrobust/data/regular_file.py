"""Opening a file that is not trusted to be one."""

from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from ctrobust.errors import DataError


@contextmanager
def open_regular_file(path: Path, expected: str) -> Iterator[BufferedReader]:
    """Opens a regular file for reading; a pipe is not waited for.

    Args:
        path: the file.
        expected: what it should be, as in "an IDX file".

    Raises:
        DataError: it is missing, a folder, a pipe or a device, or cannot be opened or read.
    """
    try:
        if not path.is_file():
            found = "is a folder" if path.is_dir() else "is not a regular file" if path.exists() else "does not exist"
            raise DataError(f"{path} {found}; expected {expected}")
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
