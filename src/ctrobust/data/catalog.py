"""What data sets there are, where they lie, and what is the matter with one."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from ctrobust.data import mnist
from ctrobust.data.cifar import CIFAR10, CIFAR100
from ctrobust.data.dataset import Dataset
from ctrobust.data.folder import damaged
from ctrobust.data.listing import list_pictures
from ctrobust.data.locate import find_files, search_roots
from ctrobust.data.locator import parse_locator
from ctrobust.data.sources import SOURCES
from ctrobust.errors import DataError

_SHOWN = 10
_DESCRIPTIONS = {
    "digits": "1,797 handwritten digits, grey 28 x 28, embedded",
    "mnist": "70,000 handwritten digits, grey 28 x 28",
    "fashion-mnist": "70,000 pieces of clothing in 10 classes, grey 28 x 28",
    "cifar10": "60,000 photographs in 10 classes, colour 32 x 32",
    "cifar100": "60,000 photographs in 100 classes, colour 32 x 32",
    "folder:PATH": "PNG, JPEG or WebP pictures, one folder per class; folder:PATH?size=64",
    "npz:PATH": "arrays images and labels in an .npz file",
}
_CIFAR = {published.name: published for published in (CIFAR10, CIFAR100)}
_MNIST = {published.name: published for published in (mnist.MNIST, mnist.FASHION_MNIST)}


@dataclass(frozen=True)
class Row:
    """A data set that can be named.

    Args:
        name: what `load` takes.
        description: one line.
        splits: those that can be loaded now; none for a name that needs a path.
        place: the folder it was found in, if it lies in one.
        verified: whether its files are the published ones; None where only `check` can tell, or nobody published any.
    """

    name: str
    description: str
    splits: tuple[str, ...]
    place: Path | None
    verified: bool | None


@dataclass(frozen=True)
class Finding:
    """Something `check` found: "ok", a "note" that may or may not matter, or an "error" that makes loading fail."""

    level: Literal["ok", "note", "error"]
    text: str


def available(root: Path | str | None = None) -> tuple[Row, ...]:
    """The data sets that can be named. Files are hashed, which takes a second, but neither unpacked nor loaded.

    Raises:
        DataError: `root` is given and is not a folder, or a file cannot be read.
    """
    search_roots(root)
    rows = []
    for name, description in _DESCRIPTIONS.items():
        if name not in SOURCES:
            embedded = name == "digits"
            rows.append(Row(name, description, ("train", "test") if embedded else (), None, embedded or None))
            continue
        found = {split: paths for split in ("train", "test") if (paths := _locate(name, split, root))}
        files = [path for part in found.values() for path in part]
        place = files[0].parent if files else None
        rows.append(Row(name, description, tuple(found), place, _verified(name, files) if files else None))
    return tuple(rows)


def is_found(name: str, split: str, root: Path | str | None = None) -> bool:
    """Whether a split's files are there, whatever they hold.

    Raises:
        DataError: `root` is given and is not a folder.
    """
    search_roots(root)
    return name not in SOURCES or bool(_locate(name, split, root))


def examine(name: str, load: Callable[[str], Dataset]) -> list[Finding]:
    """Loads both splits and says what was found.

    Args:
        name: the data set.
        load: gives the split that is named.
    """
    findings, loaded = [], {}
    if name.startswith("folder:"):
        findings += _examine_folder(name)
    if any(finding.level == "error" for finding in findings):
        return findings
    for split in ("train", "test"):
        try:
            data = loaded[split] = load(split)
        except DataError as error:
            findings.append(Finding("error", f"{split}: {error}"))
            continue
        _, channels, height, width = data.images.shape
        size = f"{len(data):,} images, {channels} x {height} x {width}, of {data.num_classes:,} classes"
        findings.append(Finding("ok", f"{split}: {size}{', as published' if data.verified else ''}"))
        if name in SOURCES and not data.verified:
            findings.append(Finding("note", f"{split}: unverified: other contents, order or number than published"))
        findings += _examine_classes(data)
    if len(loaded) == 2:
        findings += _examine_overlap(loaded["train"], loaded["test"])
    return findings


def _examine_folder(name: str) -> list[Finding]:
    try:
        listing = list_pictures(parse_locator(name, ["size"]).path)
        findings = [Finding("error", text) for text in damaged(name)]
    except DataError as error:
        return [Finding("error", str(error))]
    if listing.passed_over:
        findings.append(Finding("note", f"{listing.passed_over:,} files are not named as pictures and are passed over"))
    return findings


def _examine_classes(data: Dataset) -> list[Finding]:
    counts = np.bincount(data.labels.numpy(), minlength=data.num_classes)
    findings = []
    for number, described in ((0, "no image"), (1, "one image")):
        classes = [data.classes[label] for label in np.flatnonzero(counts == number)]
        if classes:
            shown = ", ".join(classes[:_SHOWN]) + (", ..." if len(classes) > _SHOWN else "")
            findings.append(Finding("note", f"{data.split}: {len(classes):,} classes have {described}: {shown}"))
    return findings


def _examine_overlap(train: Dataset, test: Dataset) -> list[Finding]:
    def digests(data: Dataset) -> Iterable[bytes]:
        return (hashlib.sha256(np.ascontiguousarray(image).data).digest() for image in data.images.numpy())

    known = set(digests(train))
    count = sum(digest in known for digest in digests(test))
    return [Finding("note", f"{count:,} images of test are in train too, pixel for pixel")] if count else []


def _locate(name: str, split: str, root: Path | str | None) -> tuple[Path, ...]:
    try:
        if name in _CIFAR:
            return find_files(_CIFAR[name].folder, _CIFAR[name].files[split], root, zipped=False)
        return find_files(name, mnist.FILES[split], root)
    except DataError:
        return ()


def _verified(name: str, paths: Iterable[Path]) -> bool | None:
    """Whether all files are the published ones; None if one is compressed otherwise, which says nothing."""
    contents = _CIFAR[name].sha256 if name in _CIFAR else _MNIST[name].sha256
    published = dict(contents) | {remote.name: remote.sha256 for remote in SOURCES[name].files}
    same = {path: _sha256(path) == published[path.name] for path in paths}
    if all(same.values()):
        return True
    return None if all(path.suffix == ".gz" for path, equal in same.items() if not equal) else False


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
