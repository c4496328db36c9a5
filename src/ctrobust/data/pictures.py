"""Pictures in files: their headers, and their pixels at a given size. PNG, JPEG and WebP, recognized by contents."""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from ctrobust.errors import DataError

FORMATS = ("PNG", "JPEG", "WEBP")
SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp"})
MOST_PIXELS = 89_478_485  # Pillow's own limit: 360 MB to decode
LARGE = 16_000_000  # pixels; such pictures are decoded one at a time, and reduced before anything else

_ORIENTATION = 0x0112
_TRANSPOSED = (5, 6, 7, 8)  # orientations that exchange height and width
_GRAYSCALE = ("1", "L", "LA", "La", "I")  # and the 16-bit modes I;16*
_BLOCK = 256
_BAND = 1 << 20
_one_at_a_time = ThreadPoolExecutor(1)  # one thread, because each thread keeps the memory that it has freed
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Facts:
    """The contents of a picture's header: its size after its orientation is applied, and whether it is grayscale."""

    height: int
    width: int
    grayscale: bool


@dataclass(frozen=True)
class Failure:
    """Why a picture cannot be read."""

    reason: str


def inspect(path: str) -> Facts:
    """Read a picture's header."""
    with Image.open(path, formats=FORMATS) as image:
        _check_size(image)
        size, mode = image.size, image.mode
        transposed = (
            _one_at_a_time.submit(_is_transposed, image).result() if _is_large(image) else _is_transposed(image)
        )
    width, height = reversed(size) if transposed else size
    return Facts(height, width, mode in _GRAYSCALE or mode.startswith("I;16"))


def decode(path: str, height: int, width: int, channels: int) -> NDArray[np.uint8]:
    """Read a picture as (C, height, width): oriented by its EXIF data, cropped around the center, resized.

    Transparent pixels become white; an animation gives its first frame; 16-bit values keep their high byte.
    """
    convert = partial(_convert, mode="L" if channels == 1 else "RGB")
    with Image.open(path, formats=FORMATS) as image:
        _check_size(image)
        # JPEG can be decoded at an eighth, a quarter or half of its size; at least twice the target size is kept.
        kept = 2 * max(height, width)
        image.draft(None, (kept, kept))
        if _is_large(image):
            seen = _one_at_a_time.submit(_reduced, image, kept, convert).result()
        else:
            seen = convert(ImageOps.exif_transpose(image))
    if seen.size != (width, height):
        seen = ImageOps.fit(seen, (width, height), Image.Resampling.BICUBIC)
    pixels = np.asarray(seen, np.uint8)
    return np.ascontiguousarray(pixels.reshape(height, width, channels).transpose(2, 0, 1))


def _reduced(image: Image.Image, kept: int, convert: Callable[[Image.Image], Image.Image]) -> Image.Image:
    """Convert a picture to its mode and orientation, and divide its size by a number that leaves `kept` pixels.

    Rows are converted and reduced in bands: a color picture of the largest size takes 360 MB, and each copy as much.
    """
    factor = max(1, min(image.size) // kept)
    band = factor * max(1, _BAND // (factor * image.width))
    size = (-(-image.width // factor), -(-image.height // factor))
    reduced: Image.Image | None = None
    for top in range(0, image.height, band):
        rows = convert(image.crop((0, top, image.width, min(top + band, image.height)))).reduce(factor)
        reduced = reduced or Image.new(rows.mode, size)
        reduced.paste(rows, (0, top // factor))
    assert reduced is not None
    reduced.info = dict(image.info)  # the orientation
    image.close()
    return ImageOps.exif_transpose(reduced)


def each(function: Callable[[str], _Result], paths: Sequence[str]) -> Iterator[_Result | Failure]:
    """Apply a function to every path, in order, on a few threads, because Pillow's decoders release the GIL."""

    def attempt(path: str) -> _Result | Failure:
        if not os.path.isfile(path):  # opening a pipe would block
            return Failure("is missing or not a regular file")
        try:
            return function(path)
        # Pillow's decoders raise errors of almost any type for damaged files.
        except Exception as error:
            reason = getattr(error, "strerror", None) or str(error).replace(f" {path!r}", "").replace(path, "it")
            return Failure(str(reason) or type(error).__name__)

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        # Results that are not yet consumed are held in memory, therefore only a block of them.
        for first in range(0, len(paths), _BLOCK):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about odd EXIF data, and about sizes, which are checked here
                results = list(pool.map(attempt, paths[first : first + _BLOCK]))
            yield from results


def _is_transposed(image: Image.Image) -> bool:
    transposed = image.getexif().get(_ORIENTATION) in _TRANSPOSED  # decodes a PNG without EXIF data
    image.close()
    return transposed


def _is_large(image: Image.Image) -> bool:
    return image.width * image.height > LARGE


def _check_size(image: Image.Image) -> None:
    if image.width * image.height > MOST_PIXELS:
        raise DataError(f"{image.width} x {image.height} pixels, expected at most {MOST_PIXELS:,} in all")


def _convert(image: Image.Image, mode: str) -> Image.Image:
    return _opaque(image).convert(mode)


def _opaque(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):  # Pillow's conversion would clip at 255
        return Image.fromarray((np.asarray(image).astype(np.uint32) >> 8).clip(0, 255).astype(np.uint8))
    if not image.has_transparency_data:
        return image
    picture = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture)
