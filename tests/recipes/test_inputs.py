"""Recipes refuse impossible settings when they are constructed and impossible batches when they are called."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ctrobust.errors import InputError
from ctrobust.recipes import RECIPES, Free, Madry, Natural, Recipe, Trades
from tests.recipes.descent import batches, network

every_recipe = pytest.mark.parametrize("kind", [kind for name, kind in RECIPES.items() if name != "natural"])


@every_recipe
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"eps": 8}, r"eps is for images in \[0, 1\] and so between 0 and 1, got 8"),
        ({"eps": -0.1}, r"eps is for images in \[0, 1\] and so between 0 and 1, got -0.1"),
        ({"eps": "8/255"}, "eps must be a number; got '8/255'"),
        ({"step_size": 2}, r"step_size is for images in \[0, 1\]"),
        ({"gamma": -1.0}, "gamma must be a finite number of at least 0; got -1.0"),
        ({"gamma": 101.0}, r"gamma is at most 100, beyond which exp\(gamma STD\) may overflow; got 101"),
        ({"gamma_in": "all"}, "gamma_in must be one of 'both', 'attack', 'descent'; got 'all'"),
        ({"loss": "hinge"}, "loss must be one of .*; got 'hinge'"),
    ],
)
def test_impossible_settings_are_refused(kind: Callable[..., Recipe], settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        kind(**settings)


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (Madry, {"steps": 0}, "steps is a whole number of at least 1, got 0"),
        (Trades, {"steps": 0}, "steps is a whole number of at least 1, got 0"),
        (Free, {"replays": 0}, "replays is a whole number of at least 1, got 0"),
        (Trades, {"beta": -1}, "beta must be a finite number of at least 0; got -1"),
        (Trades, {"std_at": "both"}, "std_at must be one of 'adv', 'clean'; got 'both'"),
        (Trades, {"loss": "std", "second_clean_pass": True}, "second_clean_pass needs loss 'skl'"),
    ],
)
def test_impossible_settings_of_single_recipes_are_refused(
    kind: Callable[..., Recipe], settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        kind(**settings)


@every_recipe
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, y: (255 * x, y), "got values from .*; divide by 255"),
        (lambda x, y: ((x - 0.5) / 0.25, y), "normalize inside the model"),
        (lambda x, y: ((255 * x).to(torch.uint8), y), "got torch.uint8; divide uint8 images by 255"),
        (lambda x, y: (x, torch.eye(10)[y]), "labels are integers of shape"),
    ],
)
def test_impossible_batches_are_refused(
    kind: Callable[..., Recipe], change: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]], message: str
) -> None:
    x, y, keys = batches()[0]
    with pytest.raises(InputError, match=message):
        next(kind()(network(), *change(x, y), keys))


@every_recipe
def test_the_default_keys_are_positions_in_the_batch(kind: Callable[..., Recipe]) -> None:
    x, y, _ = batches()[0]
    with_keys, without = kind(), kind()
    for _ in range(2):
        expected = next(with_keys(network(), x, y, torch.arange(len(x))))
        assert torch.equal(next(without(network(), x, y)), expected)


def test_a_module_without_sample_logits_is_refused_with_the_way_to_get_it() -> None:
    x, y, _ = batches()[0]
    module: Any = nn.Sequential(nn.Flatten(), nn.LazyLinear(10))
    with pytest.raises(InputError, match=r"Sequential has no method sample_logits, .*ctrobust\.models\.split gives"):
        next(Natural(samples=4)(module, x, y))
    assert next(Natural()(module, x, y)).isfinite()


@pytest.mark.parametrize("kind", RECIPES.values())
def test_a_softmax_at_the_end_of_the_model_warns(kind: Callable[..., Recipe]) -> None:
    model, (x, y, _) = network(), batches()[0]
    next(iter(kind()(model, x, y)))  # no softmax, no warning
    with_softmax = nn.Sequential(model, nn.Softmax(1)).train()
    with pytest.warns(UserWarning, match=r"gives probabilities: .* Remove its softmax\. What is trained on them"):
        next(iter(kind()(with_softmax, x, y)))  # type: ignore[arg-type]
