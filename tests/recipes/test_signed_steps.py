"""Random starts, signed steps, and the state of the model during and after the attack inside a recipe."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrobust.recipes import Fast, Madry, Trades
from ctrobust.recipes.signed_steps import StartStream, attack_mode, signed_step
from tests.recipes.descent import (
    EPS,
    batches,
    in_ball_and_box,
    network,
)

X, Y, KEYS = batches()[0]
Attacking = type[Fast] | type[Madry] | type[Trades]


def test_starts_differ_between_batches_and_depend_on_the_examples_key_only() -> None:
    starts = StartStream(seed=0)
    one, two = starts.uniform(X, KEYS, EPS), starts.uniform(X, KEYS, EPS)
    assert (one != two).float().mean() > 0.8  # starts clipped to 0 or 1 are equal
    assert in_ball_and_box(one, X)
    assert not torch.equal(StartStream(seed=1).uniform(X, KEYS, EPS), one)
    part = StartStream(seed=0).uniform(X[1::2], KEYS[1::2], EPS)
    assert torch.equal(part, one[1::2])


def test_uniform_starts_fill_the_ball_and_normal_starts_have_the_given_scale() -> None:
    x, keys = torch.full((64, 3, 8, 8), 0.5), torch.arange(64)
    offset = StartStream(seed=0).uniform(x, keys, EPS) - x
    assert offset.min() < -0.99 * EPS < 0.99 * EPS < offset.max()
    assert offset.std().item() == pytest.approx(2 * EPS / 12**0.5, rel=0.02)
    normal = StartStream(seed=0).normal(x, keys, 0.001) - x
    assert normal.std().item() == pytest.approx(0.001, rel=0.02)
    assert abs(normal.mean().item()) < 5e-5


def test_starts_resume_from_their_state() -> None:
    starts, other = StartStream(seed=3), StartStream(seed=3)
    starts.uniform(X, KEYS, EPS)
    other.load_state_dict(starts.state_dict())
    assert torch.equal(other.uniform(X, KEYS, EPS), starts.uniform(X, KEYS, EPS))


@settings(deadline=None)
@given(
    st.floats(0, 1, width=32), st.floats(-1, 1, width=32), st.floats(1e-3, 0.5), st.floats(1e-3, 1), st.integers(-1, 1)
)
def test_a_step_ends_in_ball_and_box(x: float, offset: float, eps: float, step_size: float, sign: int) -> None:
    at = torch.tensor([x])
    adv = (at + max(-eps, min(eps, offset))).clamp(0, 1)
    found = signed_step(at, adv, torch.tensor([7.0 * sign]), eps, step_size)
    assert in_ball_and_box(found, at, eps)
    expected = min(max(adv.item() + step_size * sign, x - eps), x + eps)
    assert found.item() == pytest.approx(min(max(expected, 0), 1), abs=1e-6)


@pytest.mark.parametrize("eval_mode", [False, True])
def test_the_attack_restores_modes_and_gradient_flags_also_after_an_error(eval_mode: bool) -> None:
    model = network()
    model.head.eval()
    frozen = next(model.body.parameters()).requires_grad_(False)
    modes = [module.training for module in model.modules()]
    flags = [parameter.requires_grad for parameter in model.parameters()]

    def fail() -> None:
        with torch.no_grad(), attack_mode(model, eval_mode=eval_mode):
            assert torch.is_grad_enabled()
            assert not any(parameter.requires_grad for parameter in model.parameters())
            assert [module.training for module in model.modules()] == ([False] * len(modes) if eval_mode else modes)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [module.training for module in model.modules()] == modes
    assert [parameter.requires_grad for parameter in model.parameters()] == flags
    assert not frozen.requires_grad
