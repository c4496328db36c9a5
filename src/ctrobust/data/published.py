"""Published data sets: what an entry of the registry holds, and how its files are found, verified and loaded."""

import gzip
import hashlib
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import torch
from numpy.typing import NDArray

from ctrobust.data.dataset import Dataset
from ctrobust.data.locate import find_files, open_regular_file

_CHUNK = 1 << 20
_MOST_BYTES = 1 << 28  # more than any published file takes uncompressed

Read = Callable[[Sequence[Path]], tuple[NDArray[np.uint8], NDArray[np.uint8]]]
"""Reads the files of a split into images (N, C, H, W) and labels (N,)."""


@dataclass(frozen=True)
class Download:
    """A file that can be downloaded: its mirrors, tried in order, its exact size in bytes, and its checksum."""

    name: str
    urls: tuple[str, ...]
    size: int
    sha256: str


@dataclass(frozen=True)
class Published:
    """A data set as its authors published it.

    Args:
        name: its name in the registry.
        description: one line.
        folder: the folder of its files below a data root.
        files: by split, the names of its files without `.gz`, in order.
        read: reads the files of a split.
        classes: the class names.
        mean: one per channel, of the training pixels in [0, 1].
        std: one per channel, of the training pixels in [0, 1].
        sha256: by file name, of uncompressed files. Copies are repacked: Debian's Fashion-MNIST has other gzip headers.
        downloads: the files to download.
        members: if not empty, `downloads` is one .tar.gz, from whose folder of the name `folder` these files are taken,
            each with its largest size.
    """

    name: str
    description: str
    folder: str
    files: Mapping[str, tuple[str, ...]]
    read: Read
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    sha256: Mapping[str, str]
    downloads: tuple[Download, ...]
    members: Mapping[str, int]


def find_split(published: Published, split: str, root: Path | str | None = None) -> tuple[Path, ...]:
    zipped = not published.members
    return find_files(published.folder, published.files[split], root, zipped=zipped, dataset=published.name)


def load_published(published: Published, split: str, root: Path | str | None = None) -> Dataset:
    """Load one split; only the files of that split are needed. Other contents load too, with `verified` false."""
    paths = find_split(published, split, root)
    images, labels = published.read(paths)
    return Dataset(
        name=published.name,
        split=split,
        images=torch.from_numpy(images),
        labels=torch.from_numpy(labels).long(),
        classes=published.classes,
        mean=published.mean,
        std=published.std,
        verified=all(is_verified(published, path) for path in paths),
    )


def is_verified(published: Published, path: Path) -> bool:
    """Return whether a file, or what it holds compressed, has the published SHA-256."""
    known = {**published.sha256, **{file.name: file.sha256 for file in published.downloads}}
    with open_regular_file(path, "a data file") as file:
        if path.name in known and _sha256(file) == known[path.name]:
            return True
        if path.suffix != ".gz" or path.stem not in known:
            return False
        file.seek(0)
        try:
            with gzip.GzipFile(fileobj=file) as unzipped:
                return _sha256(unzipped) == known[path.stem]
        except (gzip.BadGzipFile, EOFError, zlib.error):
            return False


def _sha256(file: IO[bytes] | gzip.GzipFile) -> str | None:
    """Return the SHA-256 of a stream, or None if it is longer than any published file."""
    digest, size = hashlib.sha256(), 0
    while chunk := file.read(_CHUNK):
        digest.update(chunk)
        size += len(chunk)
        if size > _MOST_BYTES:
            return None
    return digest.hexdigest()
