"""Data sets: a name becomes uint8 tensors in memory, with class names and normalization constants.

Example:
    >>> from ctrobust import data
    >>> test = data.load("digits", split="test")
    >>> test.images.shape, test.num_classes
    (torch.Size([355, 1, 28, 28]), 10)
"""

from collections.abc import Callable
from pathlib import Path

from ctrobust.data.augment import augment
from ctrobust.data.batches import epoch_batches, gather, to_float
from ctrobust.data.catalog import SPLITS, CatalogRow, Finding, examine, list_available, locate_split
from ctrobust.data.cifar import CIFAR10, CIFAR100
from ctrobust.data.dataset import Dataset
from ctrobust.data.digits import load_digits
from ctrobust.data.download import DownloadProgress, fetch_published
from ctrobust.data.examples import as_examples
from ctrobust.data.folder import load_folder
from ctrobust.data.kmnist import KMNIST
from ctrobust.data.locate import parse_locator
from ctrobust.data.mnist import FASHION_MNIST, MNIST
from ctrobust.data.npz import load_npz
from ctrobust.data.picture_list import list_pictures
from ctrobust.data.published import Published, load_published
from ctrobust.errors import InputError, closest

__all__ = [
    "DATASETS",
    "PATH_LOADERS",
    "PUBLISHED",
    "SPLITS",
    "CatalogRow",
    "Dataset",
    "DownloadProgress",
    "Finding",
    "as_examples",
    "augment",
    "available",
    "check",
    "count_train_images",
    "epoch_batches",
    "fetch",
    "gather",
    "load",
    "to_float",
]  # fmt: skip

PUBLISHED: dict[str, Published] = {
    "mnist": MNIST,
    "fashion-mnist": FASHION_MNIST,
    "kmnist": KMNIST,
    "cifar10": CIFAR10,
    "cifar100": CIFAR100,
}

DATASETS: tuple[str, ...] = ("digits", *PUBLISHED)

PATH_LOADERS: dict[str, Callable[[str, str], Dataset]] = {"folder": load_folder, "npz": load_npz}
"""Data sets of the user, named with their path, as in folder:PATH."""


def load(
    name: str,
    split: str = "train",
    root: Path | str | None = None,
    *,
    download: bool = False,
    progress: DownloadProgress | None = None,
) -> Dataset:
    """Load one split of a data set into memory. The network is used only if `download` is true.

    Args:
        name: one of `DATASETS`, or `folder:PATH` or `npz:PATH` (`folder.py` and `npz.py` describe what these hold).
        split: "train" or "test".
        root: the first folder to search for the data set's folder, before `$CTROBUST_DATA`, the user's cache and
            `/usr/share/datasets`. It does not matter to `digits`, which is embedded, nor to a PATH.
        download: whether a published data set that was not found is downloaded first, as by `fetch`.
        progress: called during the download, as by `fetch`.

    Raises:
        InputError: the name or the split is unknown.
        DataError: the files are missing or damaged.

    Example:
        >>> load("digits").classes[:3]
        ('0', '1', '2')
        >>> load("mnst")
        Traceback (most recent call last):
        ctrobust.errors.InputError: unknown data set 'mnst'; did you mean 'mnist'? known: cifar10, cifar100, digits, \
fashion-mnist, kmnist, mnist, folder:PATH, npz:PATH
    """
    kind = name.partition(":")[0] if ":" in name else None
    if name not in DATASETS and kind not in PATH_LOADERS:
        allowed = [*sorted(DATASETS), *(f"{kind}:PATH" for kind in PATH_LOADERS)]
        raise InputError(f"unknown data set {name!r}; {closest(name, allowed)}")
    if split not in SPLITS:
        raise InputError(f"unknown split {split!r} of {name}; {closest(split, SPLITS)}")
    if kind is not None:
        return PATH_LOADERS[kind](name, split)
    if name == "digits":
        return load_digits(split)
    if download and not locate_split(PUBLISHED[name], split, root):
        fetch(name, root, progress)
    return load_published(PUBLISHED[name], split, root)


def count_train_images(name: str, root: Path | str | None = None) -> int:
    """Count the training images of a data set; those of a folder are not decoded for it."""
    if name.startswith("folder:"):
        return len(list_pictures(parse_locator(name, ["size"])[0]).train)
    return len(load(name, "train", root))


def fetch(name: str, root: Path | str | None = None, progress: DownloadProgress | None = None) -> Path:
    """Download the missing files of a published data set, verify them, and return its folder.

    Args:
        name: a key of `PUBLISHED`.
        root: where its folder goes, created if necessary; `$CTROBUST_DATA`, else the user's cache, by default.
        progress: called with the number of bytes received so far and in all.

    Raises:
        InputError: the data set is not a published one.
        DataError: it cannot be downloaded or written. The message lists which file to put where by hand.
    """
    if name not in PUBLISHED:
        raise InputError(f"{name!r} cannot be downloaded. Allowed: {', '.join(sorted(PUBLISHED))}")
    return fetch_published(PUBLISHED[name], root, progress)


def available(root: Path | str | None = None) -> tuple[CatalogRow, ...]:
    """List the data sets that can be named, where each was found, and whether its files are the published ones.

    Raises:
        DataError: `root` is given and is not a folder, or a file cannot be read.
    """
    return list_available(PUBLISHED, root)


def check(name: str, root: Path | str | None = None) -> list[Finding]:
    """Load both splits and report sizes, whether they are as published, damage, small classes and overlap.

    Raises:
        InputError: the name is unknown.
    """
    return examine(name, name in PUBLISHED, lambda split: load(name, split, root))
