"""Where data sets lie on disk. Looking creates nothing."""

import os
from collections.abc import Sequence
from pathlib import Path

import platformdirs

from ctrobust.errors import DataError

ENVIRONMENT_VARIABLE = "CTROBUST_DATA"
SYSTEM_ROOT = Path("/usr/share/datasets")  # of Debian's dataset-fashion-mnist


def search_roots(root: Path | str | None = None) -> tuple[Path, ...]:
    """The places that are searched, in order: `root`, `$CTROBUST_DATA`, the user's cache, the system's data sets.

    Raises:
        DataError: `root` is given and is not a folder.
    """
    roots = [Path(platformdirs.user_cache_dir("ctrobust")), SYSTEM_ROOT]
    if named := os.environ.get(ENVIRONMENT_VARIABLE):
        roots.insert(0, _expand(named))
    if root is not None:
        explicit = _expand(root)
        if not os.path.isdir(explicit):
            found = "is not a folder" if os.path.exists(explicit) else "does not exist or may not be entered"
            raise DataError(f"the data root {explicit} {found}")
        roots.insert(0, explicit)
    return tuple(roots)


def find_files(folder: str, names: Sequence[str], root: Path | str | None = None) -> tuple[Path, ...]:
    """Finds files that belong together, each as `name.gz` or uncompressed as `name`.

    Args:
        folder: the data set's folder below each of the searched places.
        names: the files' names without `.gz`; all must be in the same place, the first such place is taken.
        root: searched before all others.

    Raises:
        DataError: no place has them all. The message says what to put where.
    """
    searched = []
    for place in search_roots(root):
        try:
            return tuple(_pick(place / folder, name) for name in names)
        except OSError as error:
            searched.append(f"  {error.filename}[.gz]: {error.strerror}")
    wanted = " and ".join(f"{name}.gz" for name in names)
    raise DataError(
        f"{folder} was not found. Put {wanted}, as published or without .gz uncompressed, together into a folder "
        f"{folder} under a data root, ${ENVIRONMENT_VARIABLE} or one of the places searched:\n" + "\n".join(searched)
    )


def _pick(folder: Path, name: str) -> Path:
    compressed, plain = folder / f"{name}.gz", folder / name
    if os.path.exists(compressed):  # not Path.exists, which raises where a folder may not be entered
        return compressed
    plain.stat()  # raises what the search reports: no such file, or no permission
    return plain


def _expand(root: Path | str) -> Path:
    # Not Path.expanduser, which raises for an unknown user.
    return Path(os.path.expanduser(root))
