"""Which data sets there are and where they were found, and what `check` finds in one."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from ctrobust.data.dataset import Dataset
from ctrobust.data.folder import damaged_pictures
from ctrobust.data.locate import parse_locator, search_roots
from ctrobust.data.picture_list import list_pictures
from ctrobust.data.published import Published, find_split, is_verified
from ctrobust.errors import DataError

SPLITS = ("train", "test")
_SHOWN = 10


@dataclass(frozen=True)
class CatalogRow:
    """A data set that can be named.

    Args:
        name: what `load` takes.
        description: one line.
        splits: those that can be loaded now; none for a name that needs a path.
        place: the folder in which it was found, if any.
        verified: whether its files are the published ones; None if it was not found or was never published.
    """

    name: str
    description: str
    splits: tuple[str, ...]
    place: Path | None
    verified: bool | None


@dataclass(frozen=True)
class Finding:
    """A result of `check`: "ok", a "note" that may or may not matter, or an "error" that makes loading fail."""

    level: Literal["ok", "note", "error"]
    text: str


def list_available(registry: Mapping[str, Published], root: Path | str | None = None) -> tuple[CatalogRow, ...]:
    """List the data sets that can be named. Their files are hashed, which takes a second, but not loaded."""
    rows = [CatalogRow("digits", "1,797 handwritten digits, grayscale 28 x 28, embedded", SPLITS, None, verified=True)]
    for name, published in registry.items():
        found = {split: paths for split in SPLITS if (paths := locate_split(published, split, root))}
        files = [path for paths in found.values() for path in paths]
        place = files[0].parent if files else None
        verified = all(is_verified(published, path) for path in files) if files else None
        rows.append(CatalogRow(name, published.description, tuple(found), place, verified))
    pictures = "PNG, JPEG or WebP pictures, one folder per class; folder:PATH?size=64"
    rows.append(CatalogRow("folder:PATH", pictures, (), None, None))
    rows.append(CatalogRow("npz:PATH", "arrays images and labels in an .npz file", (), None, None))
    return tuple(rows)


def locate_split(published: Published, split: str, root: Path | str | None = None) -> tuple[Path, ...]:
    """Return the files of a split, or nothing if they are not found; a `root` that is not a folder is refused."""
    search_roots(root)
    try:
        return find_split(published, split, root)
    except DataError:
        return ()


def examine(name: str, is_published: bool, load: Callable[[str], Dataset]) -> list[Finding]:
    """Report what `load` finds in both splits: sizes, whether they are as published, damage, small classes, overlap."""
    findings, loaded = [], {}
    if name.startswith("folder:"):
        findings += _examine_folder(name)
    if any(finding.level == "error" for finding in findings):
        return findings
    for split in SPLITS:
        try:
            data = loaded[split] = load(split)
        except DataError as error:
            findings.append(Finding("error", f"{split}: {error}"))
            continue
        _, channels, height, width = data.images.shape
        size = f"{len(data):,} images, {channels} x {height} x {width}, of {data.num_classes:,} classes"
        findings.append(Finding("ok", f"{split}: {size}{', as published' if data.verified else ''}"))
        if is_published and not data.verified:
            findings.append(Finding("note", f"{split}: unverified: other contents, order or number than published"))
        findings += _examine_classes(data)
    if len(loaded) == 2:
        findings += _examine_overlap(loaded["train"], loaded["test"])
    return findings


def _examine_folder(name: str) -> list[Finding]:
    try:
        listing = list_pictures(parse_locator(name, ["size"])[0])
    except DataError as error:
        return [Finding("error", str(error))]
    findings = [Finding("error", text) for text in damaged_pictures(listing)]
    if listing.ignored:
        findings.append(Finding("note", f"{listing.ignored:,} files are not named as pictures and are ignored"))
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
