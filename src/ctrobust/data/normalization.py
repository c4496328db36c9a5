"""Mean and standard deviation of images, exactly: from how often each of the 256 values occurs."""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

_CHUNK = 1 << 20  # values counted at a time, each as an int64


def mean_std(images: Tensor, chosen: NDArray[np.bool_] | None = None) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel, in [0, 1]; a channel of one value gets the deviation 1.

    Args:
        images: (N, C, H, W) uint8.
        chosen: (N,), which of them count; all by default.

    Example:
        >>> import torch
        >>> mean_std(torch.tensor([0, 0, 255, 255], dtype=torch.uint8).view(4, 1, 1, 1))
        ((0.5,), (0.5,))
    """
    step = max(1, _CHUNK // images[:1].numel())
    counts = np.zeros((images.shape[1], 256), np.int64)
    for first in range(0, len(images), step):
        part = images[first : first + step].numpy()
        if chosen is not None:
            part = part[chosen[first : first + step]]
        for channel, count in enumerate(counts):
            count += np.bincount(part[:, channel].ravel(), minlength=256)
    share = counts / counts.sum(1, keepdims=True)
    values = np.arange(256) / 255
    mean = share @ values
    variance = (share * (values - mean[:, None]) ** 2).sum(1)
    constant = (counts > 0).sum(1) == 1
    std = np.where(constant, 1.0, np.sqrt(variance))
    return tuple(mean.tolist()), tuple(std.tolist())
