"""Starts, steps, and what an attack inside a recipe leaves behind."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrobust.recipes import Fast, Madry, Trades
from ctrobust.recipes.signed_steps import Starts, signed_step, under_attack
from tests.recipes.descent import EPS, batches, in_bounds, network, same, trained, trained_in_pieces, watched

X, Y, KEYS = batches()[0]
Attacking = type[Fast] | type[Madry] | type[Trades]


def test_starts_are_fresh_for_each_batch_and_belong_to_the_example() -> None:
    starts = Starts(seed=0)
    one, two = starts.uniform(X, KEYS, EPS), starts.uniform(X, KEYS, EPS)
    assert (one != two).float().mean() > 0.8  # some pixels are pressed against the box
    assert in_bounds(one, X)
    assert not torch.equal(Starts(seed=1).uniform(X, KEYS, EPS), one)
    part = Starts(seed=0).uniform(X[1::2], KEYS[1::2], EPS)
    assert torch.equal(part, one[1::2])


def test_uniform_starts_fill_the_ball_and_normal_ones_have_their_scale() -> None:
    x, keys = torch.full((64, 3, 8, 8), 0.5), torch.arange(64)
    offset = Starts(seed=0).uniform(x, keys, EPS) - x
    assert offset.min() < -0.99 * EPS < 0.99 * EPS < offset.max()
    assert offset.std().item() == pytest.approx(2 * EPS / 12**0.5, rel=0.02)
    normal = Starts(seed=0).normal(x, keys, 0.001) - x
    assert normal.std().item() == pytest.approx(0.001, rel=0.02)
    assert abs(normal.mean().item()) < 5e-5


def test_starts_go_on_where_they_were() -> None:
    starts, other = Starts(seed=3), Starts(seed=3)
    starts.uniform(X, KEYS, EPS)
    other.load_state_dict(starts.state_dict())
    assert torch.equal(other.uniform(X, KEYS, EPS), starts.uniform(X, KEYS, EPS))


@settings(deadline=None)
@given(
    st.floats(0, 1, width=32), st.floats(-1, 1, width=32), st.floats(1e-3, 0.5), st.floats(1e-3, 1), st.integers(-1, 1)
)
def test_a_step_ends_in_ball_and_box(x: float, offset: float, eps: float, size: float, sign: int) -> None:
    at = torch.tensor([x])
    adv = (at + max(-eps, min(eps, offset))).clamp(0, 1)
    found = signed_step(at, adv, torch.tensor([7.0 * sign]), eps, size)
    assert in_bounds(found, at, eps)
    expected = min(max(adv.item() + size * sign, x - eps), x + eps)
    assert found.item() == pytest.approx(min(max(expected, 0), 1), abs=1e-6)


@pytest.mark.parametrize("evaluating", [False, True])
def test_all_is_as_it_was_found_also_after_an_error(evaluating: bool) -> None:
    model = network()
    model.head.eval()
    frozen = next(model.body.parameters()).requires_grad_(False)
    modes = [part.training for part in model.modules()]
    asked = [parameter.requires_grad for parameter in model.parameters()]

    def fail() -> None:
        with torch.no_grad(), under_attack(model, evaluating=evaluating):
            assert torch.is_grad_enabled()
            assert not any(parameter.requires_grad for parameter in model.parameters())
            assert [part.training for part in model.modules()] == ([False] * len(modes) if evaluating else modes)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [part.training for part in model.modules()] == modes
    assert [parameter.requires_grad for parameter in model.parameters()] == asked
    assert not frozen.requires_grad


@pytest.mark.parametrize(("recipe", "inside", "outside"), [(Fast, 1, 1), (Madry, 7, 1), (Trades, 11, 2)])
def test_the_attack_goes_through_the_inner_network_and_the_descent_through_the_model(
    recipe: Attacking, inside: int, outside: int
) -> None:
    inner, alone, model = network(seed=1), network(seed=1), network()
    in_inner, in_alone, in_model = watched(inner), watched(alone), watched(model)
    (loss,) = recipe(inner=inner)(model, X, Y, KEYS)
    next(recipe()(alone, X, Y, KEYS))
    assert (len(in_inner.inputs), len(in_model.inputs)) == (inside, outside)
    assert all(map(torch.equal, in_inner.inputs + in_model.inputs, in_alone.inputs))
    assert in_inner.training == [recipe is not Trades] * inside
    assert in_inner.wanted == [False] * inside
    assert in_model.training == in_model.wanted == [True] * outside
    assert in_model.tracked == [False] * outside
    loss.backward()
    assert all(parameter.grad is None for parameter in inner.parameters())
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("recipe", [Fast, Madry, Trades])
def test_the_starts_of_a_recipe_survive_the_end_of_an_epoch_and_a_kill(recipe: Attacking) -> None:
    assert same(trained_in_pieces(recipe, batches()), trained(recipe(), batches()))
