"""Dropout whose masks depend only on the seed, the step and the example."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from ctrobust.errors import InputError
from ctrobust.regularizers import Dropout, set_step

KEYS = torch.tensor([3, 14, 15, 9, 26, 5])


def with_step(drop: float = 0.5, *, seed: int = 0, step: int = 0, keys: Tensor = KEYS) -> Dropout:
    dropout = Dropout(drop)
    set_step(dropout, seed=seed, step=step, keys=keys, progress=0.0)
    return dropout


@pytest.mark.parametrize("drop", [0.1, 0.25, 0.5, 0.9])
def test_kept_features_are_scaled_up_and_the_others_are_zero(drop: float) -> None:
    x = torch.rand(6, 40) + 0.5
    out = with_step(drop)(x)
    kept = with_step(drop).masks(x, 1)[0]
    assert kept.any()
    assert not kept.all()
    assert torch.equal(out[kept], (x / (1 - drop))[kept])
    assert torch.equal(out[~kept], torch.zeros_like(out[~kept]))


@pytest.mark.parametrize("drop", [0.1, 0.3, 0.5, 0.75])
def test_the_rate_and_the_expectation_are_right_within_three_sigma(drop: float) -> None:
    count = 400 * 500
    out = with_step(drop, keys=torch.arange(400))(torch.ones(400, 500))
    sigma = math.sqrt(drop * (1 - drop) / count)
    assert abs((out == 0).double().mean().item() - drop) < 3 * sigma
    assert abs(out.double().mean().item() - 1.0) < 3 * sigma / (1 - drop)


def test_each_position_is_dropped_as_often_as_the_others() -> None:
    kept = with_step(keys=torch.arange(4000)).masks(torch.empty(4000, 30), 1)[0].double().mean(0)
    assert (kept - 0.5).abs().max() < 5 * math.sqrt(0.25 / 4000)


def test_masks_of_two_examples_and_of_two_samples_are_independent() -> None:
    masks = with_step(keys=torch.arange(2)).masks(torch.empty(2, 20_000), 2).flatten(0, 1).double() - 0.5
    correlation = masks @ masks.T / 20_000 / 0.25
    off = correlation - torch.diag(correlation.diagonal())
    assert off.abs().max() < 5 / math.sqrt(20_000)


def test_identity_in_eval_mode() -> None:
    x = torch.randn(6, 10)
    dropout = with_step().eval()
    assert torch.equal(dropout(x), x)
    assert torch.equal(dropout.sample(x, nn.Identity(), 3), x.repeat(3, 1))


def test_a_rate_of_zero_drops_nothing() -> None:
    x = torch.randn(6, 10)
    assert torch.equal(with_step(0.0).sample(x, nn.Identity(), 2), x.repeat(2, 1))


@settings(deadline=None, max_examples=30)
@given(order=st.permutations(range(6)), size=st.integers(1, 6), k=st.integers(1, 4))
def test_masks_do_not_depend_on_order_or_subset_of_the_batch(order: list[int], size: int, k: int) -> None:
    chosen = torch.tensor(order[:size])
    whole = with_step().masks(torch.empty(6, 33), k)
    part = with_step(keys=KEYS[chosen]).masks(torch.empty(size, 33), k)
    assert torch.equal(part, whole[:, chosen])


def test_the_first_of_k_samples_is_the_single_draw_and_the_others_differ() -> None:
    x = torch.randn(6, 32)
    single = with_step()(x)
    samples = with_step().sample(x, nn.Identity(), 4).view(4, 6, 32)
    assert torch.equal(samples[0], single)
    assert len({tuple(sample.flatten().tolist()) for sample in samples}) == 4


def test_samples_go_through_the_first_layer_k_major() -> None:
    x, layer = torch.randn(6, 32), nn.Linear(32, 5)
    dropped = with_step().sample(x, nn.Identity(), 3)
    assert torch.equal(with_step().sample(x, layer, 3), layer(dropped))


def test_other_steps_seeds_and_positions_draw_other_masks() -> None:
    x = torch.empty(6, 64)
    pair = nn.ModuleList([Dropout(), Dropout()])
    set_step(pair, seed=0, step=0, keys=KEYS, progress=0.0)
    first, second = pair
    assert isinstance(first, Dropout)
    assert isinstance(second, Dropout)
    masks = [
        with_step().masks(x, 1),
        with_step(step=1).masks(x, 1),
        with_step(seed=1).masks(x, 1),
        second.masks(x, 1),
        with_step(keys=KEYS + 1).masks(x, 1),
    ]
    assert torch.equal(first.masks(x, 1), masks[0])
    assert torch.equal(with_step().masks(x, 1), masks[0])
    assert len({tuple(mask.flatten().tolist()) for mask in masks}) == len(masks)


def test_without_a_step_key_masks_follow_torchs_generator() -> None:
    x, dropout = torch.ones(6, 64), Dropout()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        first, second = dropout(x), dropout(x)
        torch.manual_seed(1)
        again = dropout(x)
        torch.manual_seed(2)
        other = dropout(x)
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    assert not torch.equal(first, other)


def test_with_a_step_key_torchs_generator_is_not_used() -> None:
    before = torch.get_rng_state()
    with_step()(torch.ones(6, 8))
    assert torch.equal(torch.get_rng_state(), before)


def test_gradients_reach_only_kept_features() -> None:
    x = torch.randn(6, 16, requires_grad=True)
    dropout = with_step()
    dropout.sample(x, nn.Identity(), 3).sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, dropout.masks(x, 3).sum(0) / 0.5)


@pytest.mark.parametrize("drop", [-0.1, 1.0, 1.5, math.nan])
def test_impossible_rates_are_refused(drop: float) -> None:
    with pytest.raises(InputError, match=rf"drop must be a probability in \[0, 1\); got {drop}"):
        Dropout(drop)


def test_keys_of_another_batch_are_refused() -> None:
    with pytest.raises(InputError, match="6 keys, but the batch has 4 examples; call set_step"):
        with_step()(torch.ones(4, 8))


def test_the_repr_shows_the_rate() -> None:
    assert str(Dropout(0.25)) == "Dropout(drop=0.25)"
