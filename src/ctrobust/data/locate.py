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
        roots.insert(0, expand(named))
    if root is not None:
        explicit = expand(root)
        if not os.path.isdir(explicit):
            found = "is not a folder" if os.path.exists(explicit) else "does not exist or may not be entered"
            raise DataError(f"the data root {explicit} {found}")
        roots.insert(0, explicit)
    return tuple(roots)


def download_root(root: Path | str | None = None) -> Path:
    """The place downloads go to, made or not: `root`, else `$CTROBUST_DATA`, else the user's cache."""
    return search_roots()[0] if root is None else expand(root)


def find_files(
    folder: str,
    names: Sequence[str],
    root: Path | str | None = None,
    *,
    zipped: bool = True,
    dataset: str | None = None,
) -> tuple[Path, ...]:
    """Finds files that belong together, each uncompressed as `name` or, where `zipped`, as `name.gz`.

    Args:
        folder: the data set's folder below each of the searched places.
        names: the files' names without `.gz`; all must be in the same place, the first such place is taken.
        root: searched before all others.
        zipped: whether `name.gz` is looked for too, and preferred.
        dataset: the data set's name; that of its folder by default.

    Raises:
        DataError: no place has them all. The message says what to put where.
    """
    dataset = dataset or folder
    suffix, remark = ("[.gz]", ", as published or without .gz uncompressed,") if zipped else ("", "")
    searched = []
    for place in search_roots(root):
        try:
            return tuple(_pick(place / folder, name, zipped) for name in names)
        except OSError as error:
            searched.append(f"  {error.filename}{suffix}: {error.strerror}")
    wanted = " and ".join(f"{name}.gz" if zipped else name for name in names)
    raise DataError(
        f"{dataset} was not found. Put {wanted}{remark} together into a folder {folder} under a --data-root, "
        f"${ENVIRONMENT_VARIABLE} or one of the places searched, or download it: ctrobust data fetch {dataset}\n"
        + "\n".join(searched)
    )


def expand(root: Path | str) -> Path:
    """The path with `~` replaced; unlike `Path.expanduser` it leaves an unknown user's home as it is."""
    return Path(os.path.expanduser(root))


def _pick(folder: Path, name: str, zipped: bool) -> Path:
    compressed, plain = folder / f"{name}.gz", folder / name
    if zipped and os.path.exists(compressed):  # not Path.exists, which raises where a folder may not be entered
        return compressed
    plain.stat()  # raises what the search reports: no such file, or no permission
    return plain
