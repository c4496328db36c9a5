"""What every data set is once loaded."""

import dataclasses
import hashlib
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ctrobust.errors import InputError

_PART = 1024  # examples hashed at a time, where they have to be copied in order


@dataclass(frozen=True, eq=False)
class Dataset:
    """One split of a data set, whole and in memory.

    Args:
        name: the name it was loaded by.
        split: "train" or "test".
        images: (N, C, H, W) uint8, N >= 1.
        labels: (N,) int64, each below the number of classes.
        classes: one name per class.
        mean: one per channel, of the training images in [0, 1]; what the model's first layer subtracts.
        std: one per channel; what it divides by.
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
        """How many channels an image has."""
        return self.images.shape[1]

    @property
    def num_classes(self) -> int:
        """How many classes there are, present in this split or not."""
        return len(self.classes)

    def digest(self) -> str:
        """Sixteen hexadecimal digits of the SHA-256 of images and labels: what tells other contents of one name."""
        sha256 = hashlib.sha256()
        for part in (*torch.split(self.images, _PART), *torch.split(self.labels, _PART)):
            sha256.update(part.contiguous().numpy().data)
        return sha256.hexdigest()[:16]

    def take(self, limit: int | None) -> "Dataset":
        """The first `limit` examples, sharing memory; all of them for None or where there are no more."""
        if limit is None:
            return self
        if limit < 1:
            raise InputError(f"limit must be at least 1; got {limit}")
        return dataclasses.replace(self, images=self.images[:limit], labels=self.labels[:limit])
