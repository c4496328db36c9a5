"""Atomic writes: a file is there completely or not at all, whenever the process dies."""

import contextlib
import glob
import os
import tempfile
from pathlib import Path

from ctrobust.errors import RunError


def write_atomic(path: Path, content: bytes) -> None:
    """Write a temporary file beside the target, flush it to disk and rename it; on failure the old file stays."""
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        left = "the file that was there is intact" if os.path.exists(path) else "nothing was written"
        raise RunError(f"cannot write {path}: {error.strerror or error}; {left}") from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)  # it no longer exists if it was renamed


def remove_leftovers(folder: Path, of: str = "") -> None:
    """Remove temporary files that a dead process left in `folder`, for target names that begin with `of`."""
    for path in folder.glob(f".{glob.escape(of)}*.????????.tmp"):  # the pattern of mkstemp
        path.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut, on systems where folders can be opened."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
