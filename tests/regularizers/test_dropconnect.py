"""DropConnect: one mask of the weights per minibatch and sample."""

import itertools
import math

import pytest
import torch
from torch import Tensor, nn

from ctrobust.errors import InputError
from ctrobust.regularizers import DropConnect, set_step

N, D, OUT = 6, 24, 10


def layer(bias: bool = True) -> nn.Linear:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Linear(D, OUT, bias=bias)


def with_step(drop: float = 0.5, *, seed: int = 0, step: int = 0, keys: Tensor | None = None) -> DropConnect:
    noise = DropConnect(drop)
    set_step(noise, seed=seed, step=step, keys=torch.arange(N) if keys is None else keys, progress=0.0)
    return noise


def test_hand_computed_value() -> None:
    first = nn.Linear(2, 2)
    first.load_state_dict({"weight": torch.tensor([[1.0, 2.0], [3.0, 4.0]]), "bias": torch.zeros(2)})
    target_mask, v = torch.tensor([[[True, False], [True, True]]]), torch.ones(1, 2)
    for step in itertools.count():  # each step draws one of 16 masks
        noise = with_step(step=step, keys=torch.tensor([0]))
        if torch.equal(noise.masks(v, first.weight, 1), target_mask):
            break
        assert step < 1000
    assert noise.sample(v, first, 1).tolist() == [[2.0, 14.0]]
    assert noise.eval().sample(v, first, 1).tolist() == [[3.0, 7.0]]


def test_the_bias_is_neither_masked_nor_scaled() -> None:
    with_bias, without = layer(), layer(bias=False)
    x = torch.randn(N, D)
    difference = with_step().sample(x, with_bias, 3) - with_step().sample(x, without, 3)
    torch.testing.assert_close(difference, with_bias.bias.detach().expand(3 * N, OUT))


def test_each_sample_has_one_mask_for_the_whole_minibatch() -> None:
    first, x, noise = layer(), torch.randn(N, D), with_step()
    masks = noise.masks(x, first.weight, 3)
    assert masks.shape == (3, OUT, D)
    assert len({tuple(mask.flatten().tolist()) for mask in masks}) == 3
    out = noise.sample(x, first, 3)
    assert out.shape == (3 * N, OUT)
    for k, mask in enumerate(masks):
        for i in range(N):
            expected = (first.weight * mask * 2) @ x[i] + first.bias
            torch.testing.assert_close(out[k * N + i], expected)


def test_the_mask_does_not_depend_on_the_examples_and_the_first_sample_is_the_single_draw() -> None:
    weight, x = layer().weight, torch.randn(N, D)
    whole = with_step().masks(x, weight, 4)
    assert torch.equal(with_step().masks(x, weight, 1)[0], whole[0])
    assert torch.equal(with_step(keys=torch.tensor([99, 3])).masks(x[:2], weight, 4), whole)


def test_other_steps_and_seeds_draw_other_masks() -> None:
    weight, x = layer().weight, torch.randn(N, D)
    masks = [with_step(step=step, seed=seed).masks(x, weight, 1) for step in (0, 1) for seed in (0, 1)]
    assert torch.equal(with_step().masks(x, weight, 1), masks[0])
    assert len({tuple(mask.flatten().tolist()) for mask in masks}) == 4


@pytest.mark.parametrize("drop", [0.2, 0.5, 0.8])
def test_the_rate_is_right_within_three_sigma(drop: float) -> None:
    weight = torch.empty(200, 400)
    kept = with_step(drop).masks(torch.empty(N, 400), weight, 2).double()
    assert abs(kept.mean().item() - (1 - drop)) < 3 * math.sqrt(drop * (1 - drop) / kept.numel())


@pytest.mark.parametrize("noise", [with_step().eval(), with_step(0.0)])
def test_plain_weights_in_eval_mode_and_at_rate_zero(noise: DropConnect) -> None:
    first, x = layer(), torch.randn(N, D)
    assert torch.equal(noise.sample(x, first, 2), first(x.repeat(2, 1)))


def test_gradients_reach_the_kept_weights_only() -> None:
    first, x, noise = layer(), torch.rand(N, D) + 0.5, with_step()
    noise.sample(x, first, 1).sum().backward()
    assert first.weight.grad is not None
    assert torch.equal(first.weight.grad != 0, noise.masks(x, first.weight, 1)[0])


def test_without_a_step_key_masks_follow_torchs_generator() -> None:
    first, x, noise = layer(), torch.randn(N, D), DropConnect()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        one, two = noise.sample(x, first, 1), noise.sample(x, first, 1)
        torch.manual_seed(1)
        again = noise.sample(x, first, 1)
    assert torch.equal(one, again)
    assert not torch.equal(one, two)


def test_a_head_that_starts_with_another_layer_is_refused() -> None:
    with pytest.raises(InputError, match=r"masks the weights of a Linear layer, but the head starts with ReLU\(\)"):
        with_step().sample(torch.randn(N, D), nn.ReLU(), 1)


def test_impossible_rates_and_keys_of_another_batch_are_refused() -> None:
    with pytest.raises(InputError, match=r"drop must be a probability in \[0, 1\); got 1.0"):
        DropConnect(1.0)
    with pytest.raises(InputError, match="set_step gave a regularizer 6 keys, but the batch has 2 examples"):
        with_step().sample(torch.randn(2, D), layer(), 1)


def test_the_repr_shows_the_rate() -> None:
    assert str(DropConnect(0.25)) == "DropConnect(drop=0.25)"
