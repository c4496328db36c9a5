"""Pad, crop and flip of whole batches.

A crop that moves the image by some rows and columns is, in memory, one run of values that starts a little earlier or
later; what the run took from beyond the image's borders is then cleared. So a batch costs a few copies of contiguous
memory, and pixels of any type are moved as integers, bit for bit.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ctrobust import draws
from ctrobust.errors import InputError

_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_TABLE = 1 << 20  # bytes of the masks of all crops, which are then kept: float32 images of CIFAR's size fit


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
    shape, count, size = x.shape, len(x), x.numel() // len(x)
    (height, width), step = (shape[1:3], shape[3]) if channels_last else (shape[2:], 1)
    mirrored = np.flatnonzero(flip)
    source = np.arange(count)
    source[mirrored] = np.arange(count, count + len(mirrored))  # behind the originals
    start = source * size + (down * width + right) * step
    margin = x.new_zeros(pad * (width + 1) * step)
    flipped = _mirror(x.index_select(0, _index(mirrored, x)), channels_last)
    integers = _INTEGERS[x.element_size()]
    values = torch.cat((margin, x.flatten(), flipped.flatten(), margin)).view(integers)
    runs = values.unfold(0, size, 1).index_select(0, _index(start, x))
    kept = _kept(down, right, values, _Form(height, width * step, step, pad))
    runs.view(count, -1, kept.shape[1]).bitwise_and_(kept[:, None])
    return runs.view(x.dtype).view(shape)


def _index(values: NDArray[np.int64], beside: Tensor) -> Tensor:
    return torch.from_numpy(values).to(beside.device)


def _mirror(x: Tensor, channels_last: bool) -> Tensor:
    # Torch has a fast path for flipping channels-last images, seen as (N, C, H, W).
    return x.permute(0, 3, 1, 2).flip(3).permute(0, 2, 3, 1) if channels_last else x.flip(3)


class _Form(NamedTuple):
    """What a mask of an image depends on: values a row and a pixel, and the pixels of padding."""

    height: int
    row: int
    step: int
    pad: int


def _kept(down: NDArray[np.int64], right: NDArray[np.int64], values: Tensor, form: _Form) -> Tensor:
    """All bits set where each crop lies inside its image, else none: (N, height * row), in the type of `values`."""
    side = 2 * form.pad + 1
    if side**2 * form.height * form.row * values.element_size() <= _TABLE:
        return _inside(form, values.dtype, values.device).index_select(0, _index(down * side + right, values))
    rows, columns = _inside_rows_and_columns(form, values.dtype, values.device)
    by_row = rows.index_select(0, _index(down, values))
    return by_row.bitwise_and_(columns.index_select(0, _index(right, values)))


@lru_cache(maxsize=8)
def _inside(form: _Form, integers: torch.dtype, device: torch.device) -> Tensor:
    """Where a crop that starts in each row and column lies inside the image: ((2 pad + 1)^2, height * row)."""
    rows, columns = _inside_rows_and_columns(form, integers, device)
    return (rows[:, None] & columns).flatten(0, 1)


@lru_cache(maxsize=8)
def _inside_rows_and_columns(form: _Form, integers: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """The same for rows, and for columns: both (2 pad + 1, height * row)."""
    height, row, step, pad = form
    ones = torch.full((max(height, row),), -1, dtype=integers, device=device)
    rows = functional.pad(ones[:height], (pad, pad)).unfold(0, height, 1)
    columns = functional.pad(ones[:row], (pad * step, pad * step)).unfold(0, row, step)
    shape = (2 * pad + 1, height, row)
    return rows[:, :, None].expand(shape).flatten(1), columns[:, None].expand(shape).flatten(1)
