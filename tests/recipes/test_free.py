"""Free-AT, against a reference implementation."""

from collections.abc import Sequence

import pytest
import torch
from torch import nn

from ctrobust import losses
from ctrobust.errors import InputError
from ctrobust.recipes import Free
from tests.recipes.descent import (
    EPS,
    Batch,
    batches,
    descend,
    in_ball_and_box,
    network,
    record_passes,
)  # fmt: skip
from tests.recipes.formulas import Label, ce
from tests.recipes.halves import halves


def reference(
    model: nn.Module, sgd: torch.optim.SGD, data: Sequence[Batch], *,
    eps: float = EPS, step_size: float = EPS, replays: int = 8, attack: Label = ce, descent: Label = ce,
) -> None:  # fmt: skip
    """The published code; the perturbation is clipped to the box around the images of each new batch."""
    delta = torch.zeros_like(data[0][0])
    for x, y, _ in data:
        count = len(x)
        delta[:count] = torch.max(torch.min(delta[:count], 1 - x), 0 - x)
        for _ in range(replays):
            noise = delta[:count].clone().requires_grad_()
            logits = model(x + noise)
            (gradient,) = torch.autograd.grad(attack(logits, y).sum(), noise, retain_graph=True)
            stepped = torch.clamp(delta[:count] + step_size * torch.sign(gradient), -eps, eps)
            delta[:count] = torch.max(torch.min(stepped, 1 - x), 0 - x)
            sgd.zero_grad()
            descent(logits, y).mean().backward()
            sgd.step()


def test_eight_replays_take_eight_forward_and_backward_passes() -> None:
    model = network()
    passes = record_passes(model)
    assert len(descend(Free(gamma=1.0), model, batches(sizes=(8,)))) == 8
    assert len(passes.inputs) == 8
    assert len(passes.backwards) == 8
    assert passes.training == passes.parameter_gradients == [True] * 8
    assert all(module.num_batches_tracked == 8 for module in model.modules() if isinstance(module, nn.BatchNorm2d))


def test_gamma_on_one_side_takes_a_second_backward_pass_per_replay() -> None:
    model = network()
    passes = record_passes(model)
    descend(Free(gamma=1.0, gamma_in="attack"), model, batches(sizes=(8,)))
    assert (len(passes.inputs), len(passes.backwards)) == (8, 16)


def test_each_replay_is_in_ball_and_box_and_steps_by_eps() -> None:
    model = network()
    passes = record_passes(model)
    data = batches()
    descend(Free(), model, data)
    for number, seen in enumerate(passes.inputs):
        x = data[number // 8][0]
        assert in_ball_and_box(seen, x)
    assert torch.equal(passes.inputs[0], data[0][0])  # the perturbation starts at zero
    x = data[0][0]
    inside = (x > EPS) & (x < 1 - EPS)
    moved = (passes.inputs[1] - x).abs()[inside]
    assert (moved > 0.99 * EPS).float().mean() > 0.95


def test_the_loss_is_sce_of_the_perturbed_images() -> None:
    model, data = network(), batches()[:1]
    passes = record_passes(model)
    first = descend(Free(gamma=3.0), model, data)[0]
    assert first == losses.sce(network()(passes.inputs[0]), data[0][1], gamma=3.0).mean().item()


def test_the_perturbation_persists_by_position_and_a_smaller_batch_uses_the_first_positions() -> None:
    model, data = network(), batches()
    passes = record_passes(model)
    recipe = Free()
    descend(recipe, model, data[:1])
    before = recipe.state_dict()["delta"]
    assert before.abs().max() == pytest.approx(EPS)
    recipe.end_epoch()
    descend(recipe, model, data[2:])
    x = data[2][0]
    assert torch.equal(passes.inputs[8], x + torch.max(torch.min(before[:5], 1 - x), -x))
    after = recipe.state_dict()["delta"]
    assert torch.equal(after[5:], before[5:])
    assert not torch.equal(after[:5], before[:5])


@pytest.mark.parametrize("size", [8, 7])
def test_the_state_of_two_processes_is_the_perturbation_of_the_whole_batch(size: int) -> None:
    x, y, keys = batches(sizes=(size,))[0]
    recipes = [Free(replays=1, processes=half) for half in halves()]
    for recipe in recipes:
        positions = slice(recipe.processes.index, None, 2)
        descend(recipe, network(), [(x[positions], y[positions], keys[positions])])
    deltas = [recipe.delta for recipe in recipes]
    recipes[0].state_dict()
    whole = recipes[1].state_dict()["delta"]
    assert whole.shape == x.shape
    for recipe, delta in zip(recipes, deltas, strict=True):
        assert delta is not None
        assert torch.equal(whole[recipe.processes.index :: 2], delta)
        recipe.load_state_dict({"delta": whole})
        assert recipe.delta is not None
        assert torch.equal(recipe.delta, delta)


def test_wrong_use_is_refused() -> None:
    model, (x, y, keys) = network(), batches()[0]
    recipe = Free()
    replays = recipe(model, x, y, keys)
    next(replays)
    with pytest.raises(InputError, match="the perturbation has no gradient: call backward on each loss"):
        next(replays)
    descend(recipe, model, batches()[:1])
    with pytest.raises(InputError, match=r"perturbation is for images of shape \(3, 8, 8\); got \(3, 9, 9\)"):
        next(iter(recipe(model, torch.zeros(2, 3, 9, 9), y[:2], keys[:2])))
    assert Free().state_dict() == {}
