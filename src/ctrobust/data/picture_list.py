"""Which pictures a folder of class folders holds, and their splits. No picture is opened."""

import hashlib
import os
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ctrobust.data.dataset import printable_name
from ctrobust.data.holdout import held_out
from ctrobust.data.pictures import SUFFIXES
from ctrobust.errors import DataError

_TEST_NAMES = ("test", "validation", "val")
_SHOWN = 10


@dataclass(frozen=True)
class Picture:
    """A file that should be a picture."""

    path: str
    name: str  # below the data set's folder, with slashes, printable
    label: int
    digest: bytes  # SHA-256 of the name in Unicode's composed form, the same on every system
    stamp: tuple[int, int]  # time and size, by which a change is detected


@dataclass(frozen=True)
class Listing:
    """The pictures of a data set, each split ordered by digest."""

    root: str
    classes: tuple[str, ...]
    train: tuple[Picture, ...]
    test: tuple[Picture, ...]
    ignored: int


def list_pictures(root: Path) -> Listing:
    """List the pictures below a folder, following links but entering no folder twice."""
    if not os.path.isdir(root):
        found = "is not a folder" if os.path.exists(root) else "does not exist or may not be entered"
        raise DataError(f"{root} {found}; expected a folder of class folders")
    try:
        folders = _folders(root, [root])
        if "train" in folders and (classes := _folders(folders["train"], [root, folders["train"]])):
            return _list_splits(root, folders, classes)
        return _list_whole(root, folders)
    except OSError as error:
        raise DataError(f"{error.filename or root} cannot be read: {error.strerror or error}") from error


def _list_whole(root: Path, classes: dict[str, Path]) -> Listing:
    if not classes:
        raise DataError(f"{root} holds no folders; expected one folder of pictures for each class")
    pictures, ignored = _collect(root, classes, tuple(classes))
    _refuse_empty(root, tuple(classes), pictures)
    test = held_out([picture.digest for picture in pictures], np.array([picture.label for picture in pictures]))
    train, held = (tuple(pictures[index] for index in np.flatnonzero(marked)) for marked in (~test, test))
    return Listing(str(root), tuple(map(_printable, classes)), train, held, ignored)


def _list_splits(root: Path, folders: dict[str, Path], classes: dict[str, Path]) -> Listing:
    held = next((folders[name] for name in _TEST_NAMES if name in folders), None)
    if held is None:
        expected = f"expected one of {', '.join(_TEST_NAMES)} beside it, or folder:{root}/train to split that by hash"
        raise DataError(f"{root} holds a folder train with class folders; {expected}")
    others = _folders(held, [root, held])
    if unknown := [name for name in others if name not in classes]:
        shown = ", ".join(map(_printable, unknown[:_SHOWN]))
        raise DataError(f"{held}: {len(unknown)} classes that are not in train: {shown}")
    train, ignored = _collect(root, classes, tuple(classes))
    _refuse_empty(folders["train"], tuple(classes), train)
    test, also_ignored = _collect(root, others, tuple(classes))
    return Listing(str(root), tuple(map(_printable, classes)), tuple(train), tuple(test), ignored + also_ignored)


def _folders(path: Path, above: list[Path]) -> dict[str, Path]:
    """Return the folders in a folder by name, sorted, without hidden ones and without links to those above."""
    with os.scandir(path) as entries:
        names = [entry.name for entry in entries if not entry.name.startswith(".")]
    found = {name: path / name for name in sorted(names, key=_composed) if os.path.isdir(path / name)}
    return {name: place for name, place in found.items() if not any(os.path.samefile(place, high) for high in above)}


def _collect(root: Path, folders: dict[str, Path], classes: tuple[str, ...]) -> tuple[list[Picture], int]:
    """Return the pictures of some classes ordered by digest, and the number of other files."""
    pictures, ignored = [], 0
    labels = {name: number for number, name in enumerate(classes)}
    for name, folder in folders.items():
        for path in _walk(root, folder):
            if os.path.splitext(path)[1].lower() not in SUFFIXES:
                ignored += 1
                continue
            below = _composed(os.path.relpath(path, root).replace(os.sep, "/"))
            digest = hashlib.sha256(below.encode("utf-8", "surrogateescape")).digest()
            pictures.append(Picture(path, _printable(below), labels[name], digest, _stamp(path)))
    return sorted(pictures, key=lambda picture: picture.digest), ignored


def _walk(root: Path, folder: Path) -> Iterator[str]:
    """Yield every file below a folder that is not hidden."""

    def refuse(error: OSError) -> None:
        raise error

    entered = {_identity(root)}
    for place, folders, files in os.walk(folder, followlinks=True, onerror=refuse):
        if (identity := _identity(place)) in entered:
            folders.clear()
            continue
        entered.add(identity)
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (os.path.join(place, name) for name in files if not name.startswith("."))


def _identity(folder: Path | str) -> tuple[int, int]:
    found = os.stat(folder)
    return found.st_dev, found.st_ino


def _stamp(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:  # a link to nothing, reported with the damaged pictures
        return 0, 0
    return found.st_mtime_ns, found.st_size


def _refuse_empty(root: Path, classes: tuple[str, ...], pictures: list[Picture]) -> None:
    present = {picture.label for picture in pictures}
    empty = [_printable(name) for number, name in enumerate(classes) if number not in present]
    if empty:
        shown = ", ".join(empty[:_SHOWN]) + (f" and {len(empty) - _SHOWN} more" if len(empty) > _SHOWN else "")
        suffixes = ", ".join(sorted(SUFFIXES))
        raise DataError(f"{root}: {len(empty)} of {len(classes)} classes have no pictures ({suffixes}): {shown}")


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def _printable(name: str) -> str:
    """Replace bytes that are not Unicode, and escape control characters."""
    return printable_name(_composed(name).encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
