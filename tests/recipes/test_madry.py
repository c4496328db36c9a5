"""Madry-AT, against a plain implementation."""

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ctrobust import draws, losses
from ctrobust.recipes import Madry
from tests.recipes.descent import (
    EPS,
    Batch,
    batches,
    descend,
    in_bounds,
    network,
    plainly_trained,
    same,
    statistics,
    trained,
    watched,
)  # fmt: skip

STEPS, SIZE = 7, 2 / 255


def attacked(model: nn.Module, x: Tensor, y: Tensor, keys: Tensor, batch: int) -> Tensor:
    """PGD as the published code has it, with backward through everything."""
    noise = draws.uniform(keys, draws.stream(0, "start", batch), tuple(x.shape[1:]))
    adv = torch.clamp(x + (noise * (2 * EPS) - EPS), 0, 1)
    for _ in range(STEPS):
        adv = adv.detach().requires_grad_()
        cross_entropy(model(adv), y, reduction="sum").backward()
        assert adv.grad is not None
        adv = adv.detach() + SIZE * torch.sign(adv.grad)
        adv = torch.clamp(torch.max(torch.min(adv, x + EPS), x - EPS), 0, 1)
    return adv.detach()


def plain(model: nn.Module, descending: torch.optim.SGD, made: Sequence[Batch]) -> None:
    for batch, (x, y, keys) in enumerate(made):
        adv = attacked(model, x, y, keys, batch)
        descending.zero_grad()
        cross_entropy(model(adv), y).backward()
        descending.step()


def test_without_gamma_the_weights_are_those_of_the_baseline_to_the_bit() -> None:
    assert same(trained(Madry(), batches()), plainly_trained(plain, batches()))


def test_gamma_changes_them_wherever_it_acts() -> None:
    made = batches(sizes=(8,)) * 2
    found = [
        trained(Madry(steps=2), made),
        trained(Madry(steps=2, gamma=3.0), made),
        trained(Madry(steps=2, gamma=3.0, gamma_in="attack"), made),
        trained(Madry(steps=2, gamma=3.0, gamma_in="descent"), made),
        trained(Madry(steps=2, loss="std"), made),
    ]
    assert not any(same(one, two) for i, one in enumerate(found) for two in found[:i])


def test_it_descends_sce_where_the_steps_led() -> None:
    model, (x, y, keys) = network(), batches()[0]
    passes = watched(model)
    (loss,) = Madry(gamma=3.0)(model, x, y, keys)
    again = network()
    for seen in passes.inputs[:-1]:
        again(seen)  # the attack's passes move the statistics, which the last one does not use
    assert torch.equal(loss, losses.sce(again(passes.inputs[-1]), y, gamma=3.0).mean())


def test_all_passes_are_in_training_mode_and_move_the_statistics() -> None:
    model, (x, y, keys) = network(), batches()[0]
    passes = watched(model)
    (loss,) = Madry()(model, x, y, keys)
    assert passes.training == [True] * 8
    assert passes.wanted == [False] * 7 + [True]
    assert all(part.num_batches_tracked == 8 for part in model.modules() if isinstance(part, nn.BatchNorm2d))
    by_hand = network()
    for seen in passes.inputs:
        by_hand(seen)
    assert same(statistics(model), statistics(by_hand))
    assert loss.requires_grad


def test_an_attack_leaves_no_gradient_of_parameters() -> None:
    model, (x, y, keys) = network(), batches()[0]
    marks = [torch.full_like(parameter, 7.0) for parameter in model.parameters()]
    for parameter, mark in zip(model.parameters(), marks, strict=True):
        parameter.grad = mark.clone()
    next(iter(Madry()(model, x, y, keys)))
    for parameter, mark in zip(model.parameters(), marks, strict=True):
        assert parameter.grad is not None
        assert torch.equal(parameter.grad, mark)
        assert parameter.requires_grad


def test_each_step_is_in_bounds_and_none_is_made_before_the_loss_is_asked_for() -> None:
    model, (x, y, keys) = network(), batches()[0]
    passes = watched(model)
    steps = Madry()(model, x, y, keys)
    assert passes.inputs == []
    assert len(list(steps)) == 1
    assert all(in_bounds(seen, x) for seen in passes.inputs)
    moved = [(after - before).abs().max() for before, after in zip(passes.inputs, passes.inputs[1:], strict=False)]
    assert all(0 < move <= SIZE + 1e-6 for move in moved)
    assert not x.requires_grad


@pytest.mark.parametrize(
    ("fields", "steps", "size"), [({"eps": 0.1}, 7, 0.025), ({"steps": 3, "step_size": 0.01}, 3, 0.01)]
)
def test_steps_and_their_size_are_free_and_follow_the_radius(fields: dict[str, float], steps: int, size: float) -> None:
    recipe = Madry(**fields)  # type: ignore[arg-type]
    assert recipe.steps == steps
    assert recipe.step_size == pytest.approx(size)


def test_starts_differ_from_epoch_to_epoch_and_survive_a_kill() -> None:
    model, made = network(), batches(epochs=2, sizes=(8,))
    passes = watched(model)
    recipe = Madry(steps=1)
    descend(recipe, model, made)
    first, second = passes.inputs[0], passes.inputs[2]
    assert (first != second).float().mean() > 0.8
    again, other = Madry(steps=1), network()
    again.load_state_dict(recipe.state_dict())
    seen = watched(other)
    next(iter(again(other, *made[0])))
    next(iter(recipe(model, *made[0])))
    assert torch.equal(seen.inputs[0], passes.inputs[4])
    recipe.end_epoch()


def test_attacks_call_the_inner_network_and_the_descent_the_outer_one() -> None:
    inner, outer = network(), network()
    seen_inside, seen_outside = watched(inner), watched(outer)
    next(iter(Madry(inner=inner)(outer, *batches()[0])))
    assert (len(seen_inside.inputs), len(seen_outside.inputs)) == (7, 1)
