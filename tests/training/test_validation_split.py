"""The validation set, held out of the training images."""

import pytest
import torch

from ctrobust import data
from ctrobust.errors import InputError
from ctrobust.training.validation_split import hold_out


def test_the_split_is_a_partition_and_the_validation_set_has_all_classes() -> None:
    whole = data.load("digits")
    train, validation = hold_out(whole, 300)
    assert validation is not None
    assert (len(train), len(validation)) == (len(whole) - 300, 300)
    assert sorted(map(bytes, [*train.images.flatten(1).numpy(), *validation.images.flatten(1).numpy()])) == sorted(
        map(bytes, whole.images.flatten(1).numpy())
    )
    assert validation.labels.bincount(minlength=10).min() > 15
    assert (train.mean, train.std, train.classes) == (whole.mean, whole.std, whole.classes)


def test_the_split_is_the_same_each_time_and_keeps_the_order() -> None:
    whole = data.load("digits").take(50)
    (_, one), (_, two) = hold_out(whole, 10), hold_out(whole, 10)
    assert one is not None
    assert two is not None
    assert torch.equal(one.images, two.images)
    places = [next(i for i, image in enumerate(whole.images) if torch.equal(image, other)) for other in one.images]
    assert places == sorted(places)
    assert max(places) - min(places) > 20


def test_a_count_of_zero_gives_no_validation_set() -> None:
    whole = data.load("digits").take(5)
    assert hold_out(whole, 0) == (whole, None)


@pytest.mark.parametrize("count", [5, 6])
def test_holding_out_all_images_is_refused(count: int) -> None:
    with pytest.raises(InputError, match=f"validation = {count} leaves none of 5 images to train on"):
        hold_out(data.load("digits").take(5), count)
