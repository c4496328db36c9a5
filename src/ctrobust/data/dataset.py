"""One split of a data set in memory, and the normalization constants of images."""

import dataclasses
import hashlib
import math
import unicodedata
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ctrobust.errors import InputError

_PART = 1024  # examples hashed at a time, because a part may have to be copied to be contiguous


@dataclass(frozen=True, eq=False)
class Dataset:
    """One split of a data set, whole and in memory.

    Args:
        name: the name it was loaded by.
        split: "train" or "test".
        images: (N, C, H, W) uint8, N >= 1.
        labels: (N,) int64, each below the number of classes.
        classes: one name per class.
        mean: one per channel, of the training images in [0, 1]; the model's first layer subtracts it.
        std: one per channel; the model's first layer divides by it.
        verified: whether the contents are, bit for bit, the published ones.

    Example:
        >>> images, labels = torch.zeros(5, 1, 2, 2, dtype=torch.uint8), torch.tensor([0, 1, 0, 1, 0])
        >>> data = Dataset("dots", "train", images, labels, ("a", "b"), mean=(0.0,), std=(1.0,), verified=False)
        >>> len(data), data.in_channels, data.num_classes, len(data.take(2))
        (5, 1, 2, 2)
    """

    name: str
    split: str
    images: Tensor = dataclasses.field(repr=False)
    labels: Tensor = dataclasses.field(repr=False)
    classes: tuple[str, ...] = dataclasses.field(repr=False)
    mean: tuple[float, ...]
    std: tuple[float, ...]
    verified: bool

    def __post_init__(self) -> None:
        images, labels = self.images, self.labels
        if images.dtype != torch.uint8 or images.ndim != 4 or images.numel() == 0:
            self._refuse("images", f"{images.dtype} {tuple(images.shape)}", "torch.uint8 (N, C, H, W), not empty")
        if labels.dtype != torch.int64 or labels.shape != images.shape[:1]:
            self._refuse("labels", f"{labels.dtype} {tuple(labels.shape)}", f"torch.int64 ({len(images)},)")
        low, high = labels.min().item(), labels.max().item()
        if low < 0 or high >= self.num_classes:
            self._refuse("labels", f"{low} to {high}", f"0 to {self.num_classes - 1}, one per class name")
        if len(self.mean) != self.in_channels or not all(map(math.isfinite, self.mean)):
            self._refuse("mean", self.mean, f"{self.in_channels} finite values, one per channel")
        if len(self.std) != self.in_channels or not all(0 < value < math.inf for value in self.std):
            self._refuse("std", self.std, f"{self.in_channels} positive values, one per channel")

    def _refuse(self, field: str, found: object, allowed: str) -> None:
        raise InputError(f"{self.name} ({self.split}): {field} must be {allowed}; got {found}")

    def __len__(self) -> int:
        return len(self.images)

    @property
    def in_channels(self) -> int:
        return self.images.shape[1]

    @property
    def num_classes(self) -> int:
        return len(self.classes)

    def digest(self) -> str:
        """Return the first 16 hexadecimal digits of the SHA-256 of images and labels, which identify the contents."""
        sha256 = hashlib.sha256()
        for part in (*torch.split(self.images, _PART), *torch.split(self.labels, _PART)):
            sha256.update(part.contiguous().numpy().data)
        return sha256.hexdigest()[:16]

    def take(self, limit: int | None) -> "Dataset":
        """Return the first `limit` examples, sharing memory; all of them if `limit` is None or larger."""
        if limit is None:
            return self
        if limit < 1:
            raise InputError(f"limit must be at least 1; got {limit}")
        return dataclasses.replace(self, images=self.images[:limit], labels=self.labels[:limit])


def printable_name(name: str) -> str:
    r"""Return the name of a class or picture with its control characters, new lines among them, escaped.

    Example:
        >>> print(printable_name("cat\nerror: none"))
        cat\nerror: none
    """
    return "".join(
        char.encode("unicode_escape").decode() if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") else char
        for char in name
    )


def mean_std(images: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return mean and standard deviation of each channel of (N, C, H, W) uint8 images, scaled to [0, 1].

    Both are exact, because they are computed from how often each of the 256 values occurs. The standard deviation of a
    constant channel is returned as 1.

    Example:
        >>> mean_std(torch.tensor([0, 0, 255, 255], dtype=torch.uint8).view(4, 1, 1, 1))
        ((0.5,), (0.5,))
    """
    counts = torch.stack([channel.reshape(-1).bincount(minlength=256) for channel in images.unbind(1)]).numpy()
    share = counts / counts.sum(1, keepdims=True)
    values = np.arange(256) / 255
    mean = share @ values
    variance = (share * (values - mean[:, None]) ** 2).sum(1)
    std = np.where((counts > 0).sum(1) == 1, 1.0, np.sqrt(variance))
    return tuple(mean.tolist()), tuple(std.tolist())
