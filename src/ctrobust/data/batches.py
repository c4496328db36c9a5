"""Batches from tensors in memory, without workers or per-example work."""

import torch
from torch import Tensor

from ctrobust.data.dataset import Dataset
from ctrobust.errors import InputError


def epoch_batches(order: Tensor, batch_size: int, start: int = 0) -> tuple[Tensor, ...]:
    """Cut an epoch's order, (N,) int64, into batches of indices, of which the last may be smaller.

    The first `start` batches are skipped, for an epoch that is resumed.

    Example:
        >>> epoch_batches(torch.tensor([3, 1, 4, 0, 2]), batch_size=2, start=1)
        (tensor([4, 0]), tensor([2]))
    """
    if order.dtype != torch.int64 or order.ndim != 1:
        raise InputError(f"order must be torch.int64 (N,); got {order.dtype} {tuple(order.shape)}")
    if batch_size < 1:
        raise InputError(f"batch_size must be at least 1; got {batch_size}")
    count = -(-len(order) // batch_size)
    if not 0 <= start <= count:
        raise InputError(f"start must be 0 to {count}, the number of batches; got {start}")
    return tuple(order[first : first + batch_size] for first in range(start * batch_size, len(order), batch_size))


def gather(dataset: Dataset, index: Tensor) -> tuple[Tensor, Tensor]:
    """Select examples: images (B, C, H, W) float32 in [0, 1], channels last, and labels (B,) int64."""
    return to_float(dataset.images.index_select(0, index)), dataset.labels.index_select(0, index)


def to_float(images: Tensor) -> Tensor:
    """Convert (N, C, H, W) uint8 images to float32 in [0, 1], channels last: exactly v / 255.

    Example:
        >>> to_float(torch.tensor([[[[0, 51, 255]]]], dtype=torch.uint8))
        tensor([[[[0.0000, 0.2000, 1.0000]]]])
    """
    if images.dtype != torch.uint8 or images.ndim != 4:
        raise InputError(f"images must be torch.uint8 (N, C, H, W); got {images.dtype} {tuple(images.shape)}")
    # Bytes are cheaper to reorder than floats. Unlike `contiguous`, `to` gives one channel channels-last strides too.
    return images.to(memory_format=torch.channels_last).to(torch.float32).div_(255)
