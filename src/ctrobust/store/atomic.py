"""Files that are there whole or not at all, whenever the process dies."""

import contextlib
import glob
import os
import tempfile
from pathlib import Path

from ctrobust.errors import RunError


def write_atomic(path: Path, content: bytes) -> None:
    """Write beside the target, flush to the disk, and rename over it; what was there stays when anything fails."""
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
        left = "what was there before is intact" if os.path.exists(path) else "nothing was written"
        raise RunError(f"cannot write {path}: {error.strerror or error}; {left}") from error
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)  # gone already when it was renamed


def remove_leftovers(folder: Path, of: str = "") -> None:
    """Remove the temporary files of writes to `folder`, to names that begin with `of`, that a dead process left."""
    for path in folder.glob(f".{glob.escape(of)}*.????????.tmp"):  # as mkstemp names them
        path.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    """Make a rename last through a power cut, where folders can be opened."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
