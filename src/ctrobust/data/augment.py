"""Pad, crop and flip of whole batches.

A crop that moves the image by some rows and columns is, in memory, one run of values that starts a little earlier or
later; what the run took from beyond the image's borders is then cleared. So a batch costs a few copies of contiguous
memory, and pixels of any type are moved as integers, bit for bit. By NumPy, on the CPU, where the data lie: a batch is
so little work that torch's calls would cost more than what they do.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from torch import Tensor

from ctrobust import draws
from ctrobust.errors import InputError

_INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_Bits = NDArray[np.signedinteger]
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
    crop, mirrored = _moves(keys, stream, pad, flip)
    if x.stride(1) == 1 and x.is_contiguous(memory_format=torch.channels_last):
        return _shift(x.permute(0, 2, 3, 1), crop, mirrored, pad, channels_last=True).permute(0, 3, 1, 2)
    return _shift(x.contiguous(), crop, mirrored, pad, channels_last=False)


def moves(
    keys: Tensor, stream: int, pad: int, flip: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """What becomes of each example: the crop's first row and column in the padded image, and whether it is flipped.

    The flip comes first.
    """
    crop, mirrored = _moves(keys, stream, pad, flip)
    return *np.divmod(crop, 2 * pad + 1), mirrored


def _moves(keys: Tensor, stream: int, pad: int, flip: bool) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The number of each example's crop, counted row by row, and whether it is flipped."""
    words = draws.words(keys, stream, 1).cpu().numpy()[:, 0]
    return ((words >> 16) & 0x7FFFFFFF) * (2 * pad + 1) ** 2 >> 31, (words < 0) & flip


def _shift(x: Tensor, crop: NDArray[np.int64], mirrored: NDArray[np.bool_], pad: int, channels_last: bool) -> Tensor:
    """Flips and crops images that are contiguous as (N, C, H, W), or as (N, H, W, C) if `channels_last`."""
    shape, count, size = x.shape, len(x), x.numel() // len(x)
    (height, width), step = (shape[1:3], shape[3]) if channels_last else (shape[2:], 1)
    form = _Form(height, width * step, step, pad)
    bits: _Bits = x.detach().cpu().view(_INTEGERS[x.element_size()]).numpy()
    flipped = mirrored.nonzero()[0]
    margin = np.zeros(pad * (width + 1) * step, bits.dtype)
    values = np.concatenate((margin, bits.ravel(), _mirror(bits[flipped], channels_last).ravel(), margin))
    start = np.arange(0, count * size, size)
    start[flipped] = np.arange(count * size, (count + len(flipped)) * size, size)  # behind the originals
    start += _offsets(form)[crop]
    every = np.ndarray((values.size - size + 1, size), values.dtype, values, strides=(values.itemsize,) * 2)
    runs = every[start]
    kept = _kept(crop, bits.dtype, form)
    cleared = runs.reshape(count, -1, kept.shape[1])
    cleared &= kept[:, None]
    return torch.from_numpy(runs).view(x.dtype).view(shape).to(x.device)


def _mirror(images: _Bits, channels_last: bool) -> _Bits:
    # Torch flips faster, channels-last images seen as (N, C, H, W) as well.
    x = torch.from_numpy(images)
    flipped: _Bits = (x.permute(0, 3, 1, 2).flip(3).permute(0, 2, 3, 1) if channels_last else x.flip(3)).numpy()
    return flipped


class _Form(NamedTuple):
    """What a mask of an image depends on: values a row and a pixel, and the pixels of padding."""

    height: int
    row: int
    step: int
    pad: int


@lru_cache(maxsize=8)
def _offsets(form: _Form) -> NDArray[np.int64]:
    """Where in memory each crop begins, counted from the first: ((2 pad + 1)^2,)."""
    side = np.arange(2 * form.pad + 1)
    return (side[:, None] * form.row + side * form.step).ravel()


def _kept(crop: NDArray[np.int64], dtype: np.dtype[np.signedinteger], form: _Form) -> _Bits:
    """All bits set where each crop lies inside its image, else none: (N, height * row)."""
    side = 2 * form.pad + 1
    kept: _Bits
    if side**2 * form.height * form.row * dtype.itemsize <= _TABLE:
        kept = _inside(form, dtype)[crop]
    else:
        rows, columns = _inside_rows_and_columns(form, dtype)
        kept = rows[crop // side] & columns[crop % side]
    return kept


@lru_cache(maxsize=8)
def _inside(form: _Form, dtype: np.dtype[np.signedinteger]) -> _Bits:
    """Where a crop that starts in each row and column lies inside the image: ((2 pad + 1)^2, height * row)."""
    rows, columns = _inside_rows_and_columns(form, dtype)
    return (rows[:, None] & columns).reshape(-1, form.height * form.row)


@lru_cache(maxsize=8)
def _inside_rows_and_columns(form: _Form, dtype: np.dtype[np.signedinteger]) -> tuple[_Bits, _Bits]:
    """The same for rows, and for columns: both (2 pad + 1, height * row)."""
    height, row, step, pad = form
    rows = sliding_window_view(np.pad(np.full(height, -1, dtype), pad), height)
    columns = sliding_window_view(np.pad(np.full(row, -1, dtype), pad * step), row)[::step]
    return np.repeat(rows, row, axis=1), np.tile(columns, (1, height))
