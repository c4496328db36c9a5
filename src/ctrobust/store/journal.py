"""An append-only file of arrays: the progress of an evaluation, at a cost per batch that does not grow.

Each entry is its length, the SHA-256 of its content and the content. A kill can cut the last entry short; reading stops
there, and the next append replaces what is left of it.
"""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ctrobust.errors import RunError
from ctrobust.regular_file import read_regular_file
from ctrobust.store.arrays import Arrays, pack_arrays, unpack_arrays

_LENGTH, _DIGEST = 8, 32
MOST_JOURNAL_BYTES = 1 << 32


class Journal:
    """Appends arrays to a file and reads them back in order.

    Attributes:
        path: the file; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._end = 0

    def read(self) -> list[Arrays]:
        """All complete entries, in the order in which they were appended."""
        try:
            content = read_regular_file(self.path, MOST_JOURNAL_BYTES) if self.path.exists() else b""
        except OSError as error:
            raise RunError(f"cannot read {self.path}: {error.strerror or error}") from None
        entries: list[Arrays] = []
        self._end = 0
        while self._end + _LENGTH + _DIGEST <= len(content):
            start = self._end + _LENGTH + _DIGEST
            size = int.from_bytes(content[self._end : self._end + _LENGTH], "little")
            entry = content[start : start + size]
            if len(entry) != size or hashlib.sha256(entry).digest() != content[start - _DIGEST : start]:
                break
            try:
                entries.append(unpack_arrays(entry))
            except ValueError:
                break
            self._end = start + size
        return entries

    def append(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write one more entry and flush it to disk."""
        entry = pack_arrays(arrays)
        frame = len(entry).to_bytes(_LENGTH, "little") + hashlib.sha256(entry).digest() + entry
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("r+b" if self.path.exists() else "w+b") as file:
                file.seek(self._end)
                file.truncate()
                file.write(frame)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise RunError(f"cannot write {self.path}: {error.strerror or error}; its entries are intact") from error
        self._end += len(frame)

    def remove(self) -> None:
        """Delete the file."""
        self.path.unlink(missing_ok=True)
        self._end = 0
