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

from ctrobust.data.batches import epoch_batches, gather, to_float
from ctrobust.data.dataset import Dataset
from ctrobust.data.digits import load_digits
from ctrobust.data.mnist import FASHION_MNIST, MNIST, load_mnist
from ctrobust.errors import InputError

__all__ = ["DATASETS", "SPLITS", "Dataset", "epoch_batches", "gather", "load", "to_float"]

SPLITS = ("train", "test")

DATASETS: dict[str, Callable[[str, Path | str | None], Dataset]] = {
    "digits": lambda split, _root: load_digits(split),
    "fashion-mnist": lambda split, root: load_mnist(FASHION_MNIST, split, root),
    "mnist": lambda split, root: load_mnist(MNIST, split, root),
}


def load(name: str, split: str = "train", root: Path | str | None = None) -> Dataset:
    """Loads one split of a data set into memory.

    Args:
        name: a key of `DATASETS`.
        split: "train" or "test".
        root: the first place to look for the data set's folder, before `$CTROBUST_DATA`, the user's cache and
            `/usr/share/datasets`. `digits` is embedded and looks nowhere.

    Raises:
        InputError: the name or the split is unknown.
        DataError: the files are missing or damaged.

    Example:
        >>> load("digits").classes[:3]
        ('0', '1', '2')
        >>> load("mnst")
        Traceback (most recent call last):
        ctrobust.errors.InputError: unknown data set 'mnst', did you mean 'mnist'? Allowed: digits, fashion-mnist, mnist
    """
    if name not in DATASETS:
        close = difflib.get_close_matches(name, DATASETS, n=1)
        hint = f", did you mean {close[0]!r}?" if close else "."
        raise InputError(f"unknown data set {name!r}{hint} Allowed: {', '.join(DATASETS)}")
    if split not in SPLITS:
        raise InputError(f"unknown split {split!r} of {name}. Allowed: {', '.join(SPLITS)}")
    return DATASETS[name](split, root)
