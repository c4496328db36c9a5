"""Random crop and horizontal flip of whole batches."""

import torch
from torch import Tensor
from torch.nn.functional import pad as zero_pad

from ctrobust import draws
from ctrobust.errors import InputError


def augment(x: Tensor, keys: Tensor, stream: int, pad: int = 4, flip: bool = True) -> Tensor:
    """Flip each image with probability 1/2, pad it with zeros, and crop it to its size at a random position.

    All 2 (2 pad + 1)^2 results are equally likely, and each is a function of (stream, key) alone.

    Args:
        x: (N, C, H, W) of any type. The result has the memory format of x.
        keys: (N,) int64, the keys of the random draws.
        stream: a result of `draws.stream`, as in `draws.stream(seed, "augment", epoch)`.
        pad: pixels of padding on each side.
        flip: whether images are mirrored left to right.

    Returns:
        A new tensor, or x itself if there is nothing to do.

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
    count, channels, height, width = x.shape
    top, left, flipped = random_crops(keys.to(x.device), stream, pad, flip)
    rows = top[:, None] + torch.arange(height, device=x.device)
    columns = left[:, None] + torch.arange(width, device=x.device)
    columns = torch.where(flipped[:, None], width + 2 * pad - 1 - columns, columns)
    pixels = (rows[:, :, None] * (width + 2 * pad) + columns[:, None, :]).view(count, 1, height * width)
    padded = zero_pad(x, (pad,) * 4).flatten(2)
    cropped = padded.gather(2, pixels.expand(-1, channels, -1)).view(x.shape)
    last = x.stride(1) == 1 and x.is_contiguous(memory_format=torch.channels_last)
    return cropped.to(memory_format=torch.channels_last) if last else cropped


def random_crops(keys: Tensor, stream: int, pad: int, flip: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Draw the crop's first row and column in the padded image, and whether the image is flipped first: (N,) each."""
    words = draws.words(keys, stream, 1)[:, 0]
    side = 2 * pad + 1
    crop = ((words >> 16) & 0x7FFFFFFF) * side**2 >> 31
    return crop // side, crop % side, (words < 0) & flip
