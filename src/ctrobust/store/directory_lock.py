"""A lock on a directory, which a second process cannot get around by removing a file."""

import os
from pathlib import Path

from filelock import FileLock, Timeout

from ctrobust.errors import InUseError, RunError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


class DirectoryLock:
    """Holds a directory for this process. The lock is released when its process dies.

    The lock is on the directory itself. Where directories cannot be locked, as on NFS and Windows, it is on a file
    `.lock` in the directory; that file is locked also if it is there already, because earlier versions use it alone.
    What was locked may still be removed or replaced by force: `check` notices that.

    Attributes:
        path: the directory, which must exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._handle: int | None = None
        self._file: FileLock | None = None
        self._created_file = False
        self._held: dict[Path, tuple[int, int]] = {}

    def acquire(self) -> None:
        """Raise a RunError if another process holds the directory, or if it cannot be locked."""
        try:
            locked = self._lock_directory()
            file = self.path / ".lock"
            if not locked or file.exists():
                self._created_file = not file.exists()
                self._file = FileLock(file, blocking=False)
                self._file.acquire()
                self._held[file] = _identity(os.stat(file))
            self.check()
        except (BlockingIOError, Timeout):
            self.release()
            raise InUseError(f"{self.path} is in use by another process") from None
        except OSError as error:
            self.release()
            raise RunError(f"cannot use {self.path}: {error.strerror or error}") from error
        except BaseException:
            self.release()
            raise

    def check(self) -> None:
        """Raise a RunError if the directory, or the lock file, is no longer the one that was locked."""
        for path in self._held:
            if not self._is_same(path):
                what = "replaced" if path.exists() else "removed or renamed"
                raise RunError(
                    f"{path} was {what} while this process used it; the process stops, because another one may use "
                    f"{self.path} now"
                )

    def is_held(self) -> bool:
        """Whether the directory is still the one that was locked."""
        return all(map(self._is_same, self._held))

    def release(self) -> None:
        """Give the directory free; a lock file that this process made is removed."""
        if self._file is not None:
            if self._file.is_locked and self._created_file:
                Path(self._file.lock_file).unlink(missing_ok=True)
            self._file.release()
            self._file = None
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
        self._held.clear()

    def _is_same(self, path: Path) -> bool:
        try:
            return _identity(os.stat(path)) == self._held[path]
        except OSError:
            return False

    def _lock_directory(self) -> bool:
        """Lock the directory; return False where that is not possible."""
        self._held[self.path] = _identity(os.stat(self.path))
        if fcntl is None:
            return False
        self._handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        self._held[self.path] = _identity(os.fstat(self._handle))
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:
            return False
        return True


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
