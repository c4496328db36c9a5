"""Atomic writes: a file is there completely or not at all, whenever the process dies."""

import contextlib
import glob
import os
import re
import secrets
import tempfile
from pathlib import Path

from ctrobust.errors import RunError

_LEFTOVER = re.compile(r"\.ctrobust-([0-9]+)-[a-z0-9_]{8}\.tmp$")
"""The end of a temporary name: this package, the process, and the random part of mkstemp."""


def write_atomic(path: Path, content: bytes, keep_as: Path | None = None) -> None:
    """Write a temporary file beside the target, flush it to disk and rename it; on failure the old file stays.

    With `keep_as` the old file is kept under that name, in the same folder, once the new one is completely on disk.
    """
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=_prefix(path), suffix=".tmp", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        if keep_as is not None:
            _keep(path, keep_as)
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
    """Remove temporary files that dead processes left in `folder`, for target names that begin with `of`.

    Files of other programs are never removed: the names end as `write_atomic` ends them, with a process that is gone,
    or with this one, which does not write while it removes.
    """
    for path in folder.glob(f".{glob.escape(of)}*.tmp"):
        found = _LEFTOVER.search(path.name)
        if found and (int(found[1]) == os.getpid() or not _is_alive(int(found[1]))):
            path.unlink(missing_ok=True)


def is_leftover(path: Path) -> bool:
    """Whether a file has the name of a temporary file of `write_atomic`."""
    return path.name.startswith(".") and _LEFTOVER.search(path.name) is not None


def set_aside(path: Path) -> Path:
    """Rename a damaged file to the first free name of NAME.damaged-1, NAME.damaged-2 and so on, and return that."""
    aside = damaged_name(path)
    try:
        os.replace(path, aside)
    except OSError as error:
        raise RunError(f"cannot rename {path}: {error.strerror or error}") from error
    return aside


def damaged_name(path: Path) -> Path:
    """The first free name of NAME.damaged-1, NAME.damaged-2 and so on."""
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    return aside


def _keep(path: Path, kept: Path) -> None:
    """Give a file a second name, which replaces the file of that name; `path` is there at every moment.

    File systems without hard links rename the file instead; until the new one is in place, only `kept` is there.
    """
    if not path.exists():
        return
    link = kept.with_name(f"{_prefix(kept)}{secrets.token_hex(4)}.tmp")
    try:
        os.link(path, link)
    except OSError:
        os.replace(path, kept)
        return
    try:
        os.replace(link, kept)
    finally:
        link.unlink(missing_ok=True)  # it is still there if `kept` was the same file already


def _prefix(path: Path) -> str:
    return f".{path.name}.ctrobust-{os.getpid()}-"


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass  # it is another user's
    return True


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
