"""Where data sets are on disk. Searching creates nothing."""

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

import platformdirs

from ctrobust.errors import DataError, InputError

ENVIRONMENT_VARIABLE = "CTROBUST_DATA"
SYSTEM_ROOT = Path("/usr/share/datasets")  # of Debian's dataset-fashion-mnist


def search_roots(root: Path | str | None = None) -> tuple[Path, ...]:
    """Return the folders to search, in order: `root`, which must exist, `$CTROBUST_DATA`, user cache, system data."""
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


def download_root(root: Path | str | None = None) -> Path:
    """Return the folder for downloads, which need not exist: `root`, else `$CTROBUST_DATA`, else the user's cache."""
    return search_roots()[0] if root is None else _expand(root)


def find_files(
    folder: str,
    names: Sequence[str],
    root: Path | str | None = None,
    *,
    zipped: bool = True,
    dataset: str | None = None,
) -> tuple[Path, ...]:
    """Find files that are all in the same `folder` below one of the searched folders.

    If `zipped`, `name.gz` is accepted too, and preferred. `dataset` is the data set's name, by default `folder`.
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
        f"${ENVIRONMENT_VARIABLE} or one of the folders searched, or download it: ctrobust data fetch {dataset}\n"
        + "\n".join(searched)
    )


def parse_locator(name: str, allowed: Collection[str] = ()) -> tuple[Path, dict[str, str]]:
    """Split `KIND:PATH` or `KIND:PATH?option=value&option=value` into the path and the options.

    `~` is expanded. A `?` that is not followed by a `=` belongs to the path.

    Example:
        >>> parse_locator("folder:/data/cats?size=64", ["size"])
        (PosixPath('/data/cats'), {'size': '64'})
    """
    kind, _, rest = name.partition(":")
    path, mark, tail = rest.rpartition("?")
    if not mark or "=" not in tail:
        path, tail = rest, ""
    if not path or "\0" in path:
        raise InputError(f"{name!r}: expected a path, as in {kind}:PATH")
    options: dict[str, str] = {}
    for option in filter(None, tail.split("&")):
        key, _, value = option.partition("=")
        if key not in allowed:
            known = f"Allowed: {', '.join(allowed)}" if allowed else "None is allowed"
            raise InputError(f"{name!r}: unknown option {key!r}. {known}")
        if not value or key in options:
            raise InputError(f"{name!r}: option {key!r} is given {'twice' if key in options else 'no value'}")
        options[key] = value
    return _expand(path), options


@contextmanager
def open_regular_file(path: Path, expected: str) -> Iterator[BufferedReader]:
    """Open a regular file, which should be `expected`, as in "an IDX file"; refuse a pipe, which would block.

    OSErrors become DataErrors that name the file, also those of the code that reads it.
    """
    try:
        if not path.is_file():
            found = "is a folder" if path.is_dir() else "is not a regular file" if path.exists() else "does not exist"
            raise DataError(f"{path} {found}; expected {expected}")
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error


def _expand(root: Path | str) -> Path:
    # Path.expanduser raises for an unknown user.
    return Path(os.path.expanduser(root))


def _pick(folder: Path, name: str, zipped: bool) -> Path:
    compressed, plain = folder / f"{name}.gz", folder / name
    if zipped and os.path.exists(compressed):  # Path.exists raises where a folder may not be entered
        return compressed
    plain.stat()  # raises the error that the search reports: no such file, or no permission
    return plain
