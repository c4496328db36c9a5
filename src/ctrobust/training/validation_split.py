"""Training images that are held out, to choose by: never the test images."""

import dataclasses

from torch import Tensor

from ctrobust import draws
from ctrobust.data import Dataset
from ctrobust.errors import InputError


def hold_out(train: Dataset, count: int) -> tuple[Dataset, Dataset | None]:
    """Training images without `count` of them, and those, both in their old order.

    They are drawn by a permutation that depends on how many images there are and on nothing else, so that runs with
    other seeds are compared on the same ones.
    """
    check_left(train, count)
    if count == 0:
        return train, None
    order = draws.permutation(len(train), draws.stream("validation"))
    return _part(train, order[count:]), _part(train, order[:count])


def check_left(train: Dataset, count: int) -> None:
    """Refuse to hold out all images."""
    if count >= len(train):
        raise InputError(f"validation = {count} leaves none of {len(train)} images to train on")


def _part(data: Dataset, index: Tensor) -> Dataset:
    index = index.sort().values
    return dataclasses.replace(data, images=data.images[index], labels=data.labels[index])
