"""Images held out of training."""

import pytest
import torch

from ctrobust import data
from ctrobust.errors import InputError
from ctrobust.training.validation_split import hold_out


def test_they_are_taken_out_of_training_and_are_spread_over_it() -> None:
    whole = data.load("digits")
    train, held = hold_out(whole, 300)
    assert held is not None
    assert (len(train), len(held)) == (len(whole) - 300, 300)
    assert sorted(map(bytes, [*train.images.flatten(1).numpy(), *held.images.flatten(1).numpy()])) == sorted(
        map(bytes, whole.images.flatten(1).numpy())
    )
    assert held.labels.bincount(minlength=10).min() > 15
    assert (train.mean, train.std, train.classes) == (whole.mean, whole.std, whole.classes)


def test_they_are_the_same_each_time_and_keep_their_order() -> None:
    whole = data.load("digits").take(50)
    (_, one), (_, two) = hold_out(whole, 10), hold_out(whole, 10)
    assert one is not None
    assert two is not None
    assert torch.equal(one.images, two.images)
    places = [next(i for i, image in enumerate(whole.images) if torch.equal(image, held)) for held in one.images]
    assert places == sorted(places)
    assert max(places) - min(places) > 20


def test_none_are_held_out_where_none_are_asked_for() -> None:
    whole = data.load("digits").take(5)
    assert hold_out(whole, 0) == (whole, None)


@pytest.mark.parametrize("count", [5, 6])
def test_some_must_be_left(count: int) -> None:
    with pytest.raises(InputError, match=f"validation = {count} leaves none of 5 images to train on"):
        hold_out(data.load("digits").take(5), count)
