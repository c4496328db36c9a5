"""Reading a whole file that somebody named: never a pipe or a device, and never more than a limit."""

import errno
import os
import stat
from pathlib import Path


def read_regular_file(path: Path | str, most: int) -> bytes:
    """Read a whole regular file of at most `most` bytes; anything else raises an OSError that says what was found.

    A pipe would block and a device may have no end, so neither is waited for.
    """
    with open(path, "rb", opener=_open_at_once) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        if found.st_size > most:
            raise OSError(errno.EFBIG, f"it has {found.st_size:,} bytes, expected at most {most:,}", str(path))
        return file.read(most)


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # opening a pipe waits for its writer
