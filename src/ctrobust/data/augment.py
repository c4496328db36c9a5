"""Pad, crop and flip of whole batches.

A crop that moves the image by some rows and columns is, in memory, one run of values that starts a little earlier or
later; what the run took from beyond the image's borders is then cleared. So a batch costs a few copies of contiguous
memory, and pixels of any type are moved as integers, bit for bit.
"""

from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ctrobust import draws
from ctrobust.errors import InputError

_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def augment(x: Tensor, keys: Tensor, stream: int, pad: int = 4, flip: bool = True) -> Tensor:
    """Flips each image with probability 1/2, pads it with zeros, and crops it back to its size anywhere.

    All 2 (2 pad + 1)^2 results are equally likely. What becomes of an example depends on (stream, key) alone.

    Args:
        x: (N, C, H, W) of any type; channels-last in, channels-last out. uint8 is several times faster than float32.
        keys: (N,) int64, whose draws.
        stream: of `draws.stream`, as in `draws.stream(seed, "augment", epoch)`.
        pad: pixels on each side; 0 leaves the image where it is.
        flip: whether images are mirrored left to right.

    Returns:
        A new tensor; x itself where there is nothing to do.

    Example:
        >>> x = torch.arange(9, dtype=torch.uint8).view(1, 1, 3, 3)
        >>> augment(x, torch.tensor([3]), draws.stream(0), pad=1)
        tensor([[[[0, 0, 0],
                  [0, 2, 1],
                  [0, 5, 4]]]], dtype=torch.uint8)
    """
    if x.ndim != 4 or keys.dtype != torch.int64 or keys.shape != x.shape[:1]:
        raise InputError(
            f"x must be (N, C, H, W) and keys torch.int64 (N,); got {tuple(x.shape)}, {keys.dtype} {tuple(keys.shape)}"
        )
    if pad < 0:
        raise InputError(f"pad must be at least 0; got {pad}")
    if x.numel() == 0 or (pad == 0 and not flip):
        return x
    down, right, mirrored = moves(keys, stream, pad, flip)
    if x.stride(1) == 1 and x.is_contiguous(memory_format=torch.channels_last):
        return _shift(x.permute(0, 2, 3, 1), down, right, mirrored, pad, channels_last=True).permute(0, 3, 1, 2)
    return _shift(x.contiguous(), down, right, mirrored, pad, channels_last=False)


def moves(
    keys: Tensor, stream: int, pad: int, flip: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """What becomes of each example: the crop's first row and column in the padded image, and whether it is flipped.

    The flip comes first. Numpy, because arithmetic on so few values costs torch more in calls than in work.
    """
    words = draws.words(keys, stream, 1).cpu().numpy()[:, 0]
    side = 2 * pad + 1
    down, right = np.divmod(((words >> 16) & 0x7FFFFFFF) * side**2 >> 31, side)
    return down, right, (words < 0) & flip


def _shift(
    x: Tensor, down: NDArray[np.int64], right: NDArray[np.int64], flip: NDArray[np.bool_], pad: int, channels_last: bool
) -> Tensor:
    """Flips and crops images that are contiguous as (N, C, H, W), or as (N, H, W, C) if `channels_last`."""
    count, size = len(x), x[0].numel()
    (height, width), step = (x.shape[1:3], x.shape[3]) if channels_last else (x.shape[2:], 1)
    mirrored = np.flatnonzero(flip)
    source = np.arange(count)
    source[mirrored] = np.arange(count, count + len(mirrored))  # behind the originals
    start = source * size + (down * width + right) * step

    def index(values: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(values).to(x.device)

    margin = x.new_zeros(pad * (width + 1) * step)
    parts = (margin, x.flatten(), _mirror(x.index_select(0, index(mirrored)), channels_last).flatten(), margin)
    integers = _INTEGERS[x.element_size()]
    runs = torch.cat(parts).view(integers).unfold(0, size, 1).index_select(0, index(start))
    rows, columns = _inside(height, width, step, pad, integers, x.device)
    kept = rows.index_select(0, index(down)).bitwise_and_(columns.index_select(0, index(right)))
    runs.view(count, -1, kept.shape[1]).bitwise_and_(kept[:, None])
    return runs.view(x.dtype).view(x.shape)


def _mirror(x: Tensor, channels_last: bool) -> Tensor:
    # Torch has a fast path for flipping channels-last images, seen as (N, C, H, W).
    return x.permute(0, 3, 1, 2).flip(3).permute(0, 2, 3, 1) if channels_last else x.flip(3)


@lru_cache(maxsize=8)
def _inside(
    height: int, width: int, step: int, pad: int, integers: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Where a crop that starts in each row, and in each column, lies inside the image: all bits set there, else none.

    Both (2 pad + 1, height * width * step).
    """
    ones = torch.full((max(height, width * step),), -1, dtype=integers, device=device)
    rows = functional.pad(ones[:height], (pad, pad)).unfold(0, height, 1)
    columns = functional.pad(ones[: width * step], (pad * step, pad * step)).unfold(0, width * step, step)
    shape = (2 * pad + 1, height, width * step)
    return rows[:, :, None].expand(shape).flatten(1), columns[:, None].expand(shape).flatten(1)
