"""The validation set: training images held out to choose the best epoch, never test images."""

import dataclasses

from torch import Tensor

from ctrobust import draws
from ctrobust.data import Dataset
from ctrobust.errors import InputError


def hold_out(train: Dataset, count: int) -> tuple[Dataset, Dataset | None]:
    """Split `count` images off the training set; return the rest and the validation set, both in their old order.

    The images are drawn by a permutation that depends only on the number of images, so that runs with different seeds
    are compared on the same validation set.
    """
    check_validation_count(train, count)
    if count == 0:
        return train, None
    order = draws.permutation(len(train), draws.stream("validation"))
    return _subset(train, order[count:]), _subset(train, order[:count])


def check_validation_count(train: Dataset, count: int) -> None:
    """Raise if no image would be left to train on."""
    if count >= len(train):
        raise InputError(f"validation = {count} leaves none of {len(train)} images to train on")


def _subset(data: Dataset, index: Tensor) -> Dataset:
    index = index.sort().values
    return dataclasses.replace(data, images=data.images[index], labels=data.labels[index])
