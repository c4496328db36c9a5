"""Data sets: a name becomes uint8 tensors in memory, with class names and normalization constants.

Example:
    >>> from ctrobust import data
    >>> test = data.load("digits", split="test")
    >>> test.images.shape, test.num_classes
    (torch.Size([355, 1, 28, 28]), 10)
"""

import difflib
from collections.abc import Callable
from pathlib import Path

from ctrobust.data.augment import augment
from ctrobust.data.batches import epoch_batches, gather, to_float
from ctrobust.data.catalog import Finding, Row, available, examine, is_found
from ctrobust.data.cifar import CIFAR10, CIFAR100, load_cifar
from ctrobust.data.dataset import Dataset
from ctrobust.data.digits import load_digits
from ctrobust.data.download import DownloadProgress
from ctrobust.data.fetch import fetch
from ctrobust.data.folder import load_folder
from ctrobust.data.mnist import FASHION_MNIST, MNIST, load_mnist
from ctrobust.data.npz import load_npz
from ctrobust.errors import InputError

__all__ = [
    "DATASETS",
    "KINDS",
    "SPLITS",
    "Dataset",
    "DownloadProgress",
    "Finding",
    "Row",
    "augment",
    "available",
    "check",
    "epoch_batches",
    "fetch",
    "gather",
    "load",
    "to_float",
]  # fmt: skip

SPLITS = ("train", "test")

DATASETS: dict[str, Callable[[str, Path | str | None], Dataset]] = {
    "cifar10": lambda split, root: load_cifar(CIFAR10, split, root),
    "cifar100": lambda split, root: load_cifar(CIFAR100, split, root),
    "digits": lambda split, _root: load_digits(split),
    "fashion-mnist": lambda split, root: load_mnist(FASHION_MNIST, split, root),
    "mnist": lambda split, root: load_mnist(MNIST, split, root),
}

# Data sets that say where they lie, as in folder:PATH.
KINDS: dict[str, Callable[[str, str], Dataset]] = {"folder": load_folder, "npz": load_npz}


def load(
    name: str,
    split: str = "train",
    root: Path | str | None = None,
    *,
    download: bool = False,
    progress: DownloadProgress | None = None,
) -> Dataset:
    """Loads one split of a data set into memory. The network is used only where `download` asks for it.

    Args:
        name: a key of `DATASETS`, or `folder:PATH` or `npz:PATH` (see `folder.py` and `npz.py` for what these hold).
        split: "train" or "test".
        root: the first place to look for the data set's folder, before `$CTROBUST_DATA`, the user's cache and
            `/usr/share/datasets`. `digits` is embedded and looks nowhere; a PATH is taken as it is.
        download: whether a published data set that is in none of these places is downloaded first, as by `fetch`.
        progress: told about the download, as by `fetch`.

    Raises:
        InputError: the name or the split is unknown.
        DataError: the files are missing or damaged.

    Example:
        >>> load("digits").classes[:3]
        ('0', '1', '2')
        >>> load("mnst")
        Traceback (most recent call last):
        ctrobust.errors.InputError: unknown data set 'mnst', did you mean 'mnist'? Allowed: cifar10, cifar100, digits, \
fashion-mnist, mnist, folder:PATH, npz:PATH
    """
    kind = name.partition(":")[0] if ":" in name else None
    if name not in DATASETS and kind not in KINDS:
        allowed = [*DATASETS, *(f"{kind}:PATH" for kind in KINDS)]
        close = difflib.get_close_matches(name, allowed, n=1)
        hint = f", did you mean {close[0]!r}?" if close else "."
        raise InputError(f"unknown data set {name!r}{hint} Allowed: {', '.join(allowed)}")
    if split not in SPLITS:
        raise InputError(f"unknown split {split!r} of {name}. Allowed: {', '.join(SPLITS)}")
    if kind is not None:
        return KINDS[kind](name, split)
    if download and not is_found(name, split, root):
        fetch(name, root, progress)
    return DATASETS[name](split, root)


def check(name: str, root: Path | str | None = None) -> list[Finding]:
    """Loads both splits and says what was found: sizes, whether they are as published, damage, thin classes, overlap.

    Raises:
        InputError: the name is unknown.
    """
    return examine(name, lambda split: load(name, split, root))
