"""`folder:PATH`: pictures in one folder per class, in memory at one size.

    PATH/CLASS/...           split by the hash of each file's name below PATH, about one in five to test
    PATH/train/CLASS/...     with PATH/test, PATH/validation or PATH/val beside it, the first of them that is there

Classes are the folders' names in order; pictures may lie deeper inside them. Hidden files, and files that are not named
.png, .jpg, .jpeg or .webp, are passed over. `folder:PATH?size=64` brings every picture to 64 x 64. Without a size,
pictures that all have one size keep it, and others become 32 x 32. Colours are kept unless all pictures are grey.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from ctrobust.data.dataset import Dataset
from ctrobust.data.listing import Listing, Picture, list_pictures
from ctrobust.data.locator import parse_locator
from ctrobust.data.normalization import mean_std
from ctrobust.data.pictures import Failure, decode, each, inspect
from ctrobust.errors import DataError, InputError

DEFAULT_SIZE = 32
LARGEST_SIZE = 1024
MOST_BYTES = 16 << 30
_SHOWN = 10
_Result = TypeVar("_Result")
_Statistics = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True)
class Form:
    """The shape that all pictures are brought to."""

    channels: int
    height: int
    width: int


# Of the training pictures, by what they were computed from. Loading the training split and then the test split, as
# training does, would otherwise decode every training picture twice. One entry is kept.
_known: dict[tuple[Listing, Form], _Statistics] = {}


def load_folder(name: str, split: str) -> Dataset:
    """Loads one split of `folder:PATH`, ordered by hash: its first pictures are a sample of all classes.

    Mean and standard deviation are the training pictures', which are therefore decoded even for the test split, unless
    this process has just done so. `verified` is false: nobody published a checksum.

    Raises:
        InputError: the name holds no path, or its size is not a number from 1 to 1024.
        DataError: there are no class folders, a class is empty, pictures are damaged (the message names them), the
            split is empty, or the pictures would take more than 16 GiB.
    """
    locator = parse_locator(name, ["size"])
    size = _parse_size(name, locator.options.get("size"))
    listing = list_pictures(locator.path)
    chosen = listing.train if split == "train" else listing.test
    if not chosen:
        total = len(listing.train) + len(listing.test)
        raise DataError(f"{listing.root}: none of {total} pictures falls to {split} by its hash; make a folder {split}")
    form = _choose_form(listing, size)
    images = None
    if (listing, form) not in _known:
        train = _decode_all(listing, listing.train, form)
        _known.clear()
        _known[listing, form] = mean_std(train)
        images = train if split == "train" else None
    mean, std = _known[listing, form]
    if images is None:
        images = _decode_all(listing, chosen, form)
    labels = torch.tensor([picture.label for picture in chosen])
    return Dataset(name, split, images, labels, listing.classes, mean, std, verified=False)


def damaged(name: str) -> list[str]:
    """Every picture of `folder:PATH` that cannot be read, with the reason."""
    locator = parse_locator(name, ["size"])
    listing = list_pictures(locator.path)
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


def _choose_form(listing: Listing, size: int | None) -> Form:
    facts = list(_each(listing, inspect, listing.train + listing.test))
    channels = 1 if all(fact.grey for fact in facts) else 3
    sizes = {(fact.height, fact.width) for fact in facts}
    height, width = (size, size) if size else sizes.pop() if len(sizes) == 1 else (DEFAULT_SIZE, DEFAULT_SIZE)
    needed = max(len(listing.train), len(listing.test)) * channels * height * width
    if needed > MOST_BYTES:
        found = f"at {height} x {width} the pictures take {needed:,} bytes"
        raise DataError(f"{listing.root}: {found}, expected at most {MOST_BYTES:,}; name a smaller ?size=")
    return Form(channels, height, width)


def _decode_all(listing: Listing, pictures: Sequence[Picture], form: Form) -> Tensor:
    read = partial(decode, height=form.height, width=form.width, channels=form.channels)
    images = np.empty((len(pictures), form.channels, form.height, form.width), np.uint8)
    for place, pixels in enumerate(_each(listing, read, pictures)):
        images[place] = pixels
    return torch.from_numpy(images)


def _each(listing: Listing, function: Callable[[str], _Result], pictures: Sequence[Picture]) -> Iterator[_Result]:
    """Applies a function to every picture; at the end raises one error that names the damaged, if there are any."""
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
