"""`folder:PATH`: pictures in one folder per class, in memory at one size.

    PATH/CLASS/...           split by the hash of each file's name below PATH, about one in five to test
    PATH/train/CLASS/...     with PATH/test, PATH/validation or PATH/val beside it, of which the first is the test set

The classes are the folders' names, sorted; pictures may be in subfolders. Hidden files, and files that are not named
.png, .jpg, .jpeg or .webp, are ignored. `folder:PATH?size=64` resizes every picture to 64 x 64. Without a size,
pictures that all have one size of at most 1024 x 1024 keep it, and others become 32 x 32. Images have three channels
unless all pictures are grayscale.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from ctrobust.data.dataset import Dataset, mean_std
from ctrobust.data.locate import parse_locator
from ctrobust.data.picture_list import Listing, Picture, list_pictures
from ctrobust.data.pictures import Failure, decode, each, inspect
from ctrobust.errors import DataError, InputError

DEFAULT_SIZE = 32
LARGEST_SIZE = 1024
MOST_BYTES = 16 << 30
_SHOWN = 10
_Result = TypeVar("_Result")


class _Shape(NamedTuple):
    channels: int
    height: int
    width: int


# Mean and standard deviation of the training pictures. Without it, loading the training split and then the test split,
# as training does, would decode every training picture twice. It has at most one entry.
_known: dict[tuple[Listing, _Shape], tuple[tuple[float, ...], tuple[float, ...]]] = {}


def load_folder(name: str, split: str) -> Dataset:
    """Load one split of `folder:PATH`, ordered by hash, so that its first pictures are a sample of all classes.

    Mean and standard deviation are those of the training pictures, which are therefore decoded even for the test split,
    unless this process has just done so. `verified` is false, because no checksum was published.
    """
    path, options = parse_locator(name, ["size"])
    size = _parse_size(name, options.get("size"))
    listing = list_pictures(path)
    chosen = listing.train if split == "train" else listing.test
    if not chosen:
        total = len(listing.train) + len(listing.test)
        raise DataError(f"{listing.root}: none of {total} pictures is in {split} by its hash; make a folder {split}")
    shape = _choose_shape(listing, size)
    images = None
    if (listing, shape) not in _known:
        train = _decode_all(listing, listing.train, shape)
        _known.clear()
        _known[listing, shape] = mean_std(train)
        images = train if split == "train" else None
    mean, std = _known[listing, shape]
    if images is None:
        images = _decode_all(listing, chosen, shape)
    labels = torch.tensor([picture.label for picture in chosen])
    return Dataset(name, split, images, labels, listing.classes, mean, std, verified=False)


def damaged_pictures(listing: Listing) -> list[str]:
    """Return the name of every picture that cannot be read, with the reason."""
    pictures = listing.train + listing.test
    results = each(partial(decode, height=8, width=8, channels=3), [picture.path for picture in pictures])
    return [
        f"{picture.name}: {result.reason}"
        for picture, result in zip(pictures, results, strict=True)
        if isinstance(result, Failure)
    ]


def _parse_size(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:5]) <= LARGEST_SIZE):
        raise InputError(f"{name!r}: size must be 1 to {LARGEST_SIZE}; got {text!r}")
    return int(text)


def _choose_shape(listing: Listing, size: int | None) -> _Shape:
    facts = list(_read_all(listing, inspect, listing.train + listing.test))
    channels = 1 if all(fact.grayscale for fact in facts) else 3
    sizes = {(fact.height, fact.width) for fact in facts}
    height, width = (size, size) if size else (DEFAULT_SIZE, DEFAULT_SIZE)
    if size is None and len(sizes) == 1 and max(only := next(iter(sizes))) <= LARGEST_SIZE:
        height, width = only
    needed = max(len(listing.train), len(listing.test)) * channels * height * width
    if needed > MOST_BYTES:
        found = f"at {height} x {width} the pictures take {needed:,} bytes"
        raise DataError(f"{listing.root}: {found}, expected at most {MOST_BYTES:,}; give a smaller ?size=")
    return _Shape(channels, height, width)


def _decode_all(listing: Listing, pictures: Sequence[Picture], shape: _Shape) -> Tensor:
    read = partial(decode, height=shape.height, width=shape.width, channels=shape.channels)
    images = np.empty((len(pictures), *shape), np.uint8)
    for index, pixels in enumerate(_read_all(listing, read, pictures)):
        images[index] = pixels
    return torch.from_numpy(images)


def _read_all(listing: Listing, function: Callable[[str], _Result], pictures: Sequence[Picture]) -> Iterator[_Result]:
    """Apply a function to every picture, and raise one error at the end that names all damaged pictures."""
    failures = []
    for picture, result in zip(pictures, each(function, [picture.path for picture in pictures]), strict=True):
        if isinstance(result, Failure):
            failures.append(f"\n  {picture.name}: {result.reason}")
        else:
            yield result
    if failures:
        rest = f"\n  and {len(failures) - _SHOWN} more" if len(failures) > _SHOWN else ""
        found = f"{len(failures)} of {len(pictures)} pictures cannot be read"
        raise DataError(f"{listing.root}: {found}; repair or remove them:{''.join(failures[:_SHOWN])}{rest}")
