"""Free-AT, against a plain implementation."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from ctrobust import losses
from ctrobust.errors import InputError
from ctrobust.recipes import Free
from tests.recipes.descent import (
    EPS,
    Batch,
    assert_same_course,
    batches,
    descend,
    in_bounds,
    network,
    plainly_trained,
    same,
    trained,
    trained_in_pieces,
    watched,
)  # fmt: skip
from tests.recipes.formulas import LABEL_OBJECTIVES, Label, ce
from tests.recipes.halves import halves


def plain(
    model: nn.Module, descending: torch.optim.SGD, made: Sequence[Batch], *,
    eps: float = EPS, size: float = EPS, replays: int = 8, attack: Label = ce, descent: Label = ce,
) -> None:  # fmt: skip
    """The published code; the perturbation is brought into the box around the images of each new batch."""
    delta = torch.zeros_like(made[0][0])
    for x, y, _ in made:
        count = len(x)
        delta[:count] = torch.max(torch.min(delta[:count], 1 - x), 0 - x)
        for _ in range(replays):
            noise = delta[:count].clone().requires_grad_()
            logits = model(x + noise)
            (gradient,) = torch.autograd.grad(attack(logits, y).sum(), noise, retain_graph=True)
            stepped = torch.clamp(delta[:count] + size * torch.sign(gradient), -eps, eps)
            delta[:count] = torch.max(torch.min(stepped, 1 - x), 0 - x)
            descending.zero_grad()
            descent(logits, y).mean().backward()
            descending.step()


def test_without_gamma_the_weights_are_those_of_the_baseline_to_the_bit() -> None:
    assert same(trained(Free(), batches(epochs=2)), plainly_trained(plain, batches(epochs=2)))


@pytest.mark.parametrize(
    ("fields", "plainly"),
    [
        *LABEL_OBJECTIVES,
        ({"eps": 0.1}, {"eps": 0.1, "size": 0.1}),
        ({"step_size": 0.01}, {"size": 0.01}),
        ({"eps": 0.02, "step_size": 0.03}, {"eps": 0.02, "size": 0.03}),
    ],
)
def test_with_any_settings_the_points_and_weights_are_those_of_the_formulas(
    fields: dict[str, Any], plainly: dict[str, Any]
) -> None:
    assert_same_course(Free(replays=3, **fields), partial(plain, replays=3, **plainly), batches())


def test_gamma_changes_them_wherever_it_acts() -> None:
    made = batches()
    found = [
        trained(Free(replays=2), made),
        trained(Free(replays=2, gamma=1.0), made),
        trained(Free(replays=2, gamma=5.0, gamma_in="attack"), made),
        trained(Free(replays=2, gamma=5.0, gamma_in="descent"), made),
        trained(Free(replays=2, loss="std"), made),
    ]
    assert not any(same(one, two) for i, one in enumerate(found) for two in found[:i])


def test_eight_optimizer_steps_take_eight_passes_forward_and_back() -> None:
    model = network()
    passes = watched(model)
    assert len(descend(Free(gamma=1.0), model, batches(sizes=(8,)))) == 8
    assert len(passes.inputs) == 8
    assert len(passes.backwards) == 8
    assert passes.training == passes.wanted == [True] * 8
    assert all(part.num_batches_tracked == 8 for part in model.modules() if isinstance(part, nn.BatchNorm2d))


def test_gamma_on_one_side_takes_a_second_pass_back_but_none_forward() -> None:
    model = network()
    passes = watched(model)
    descend(Free(gamma=1.0, gamma_in="attack"), model, batches(sizes=(8,)))
    assert (len(passes.inputs), len(passes.backwards)) == (8, 16)


def test_each_replay_is_in_bounds_and_moves_by_a_whole_radius() -> None:
    model = network()
    passes = watched(model)
    made = batches()
    descend(Free(), model, made)
    for number, seen in enumerate(passes.inputs):
        x = made[number // 8][0]
        assert in_bounds(seen, x)
    assert torch.equal(passes.inputs[0], made[0][0])  # zeros once
    x = made[0][0]
    inside = (x > EPS) & (x < 1 - EPS)
    moved = (passes.inputs[1] - x).abs()[inside]
    assert (moved > 0.99 * EPS).float().mean() > 0.95


def test_the_loss_is_sce_at_the_perturbed_images() -> None:
    model, made = network(), batches()[:1]
    passes = watched(model)
    first = descend(Free(gamma=3.0), model, made)[0]
    assert first == losses.sce(network()(passes.inputs[0]), made[0][1], gamma=3.0).mean().item()


def test_the_perturbation_persists_by_position_and_a_smaller_batch_uses_the_first() -> None:
    model, made = network(), batches()
    passes = watched(model)
    recipe = Free()
    descend(recipe, model, made[:1])
    left = recipe.state_dict()["delta"]
    assert left.abs().max() == pytest.approx(EPS)
    recipe.end_epoch()
    descend(recipe, model, made[2:])
    x = made[2][0]
    assert torch.equal(passes.inputs[8], x + torch.max(torch.min(left[:5], 1 - x), -x))
    then = recipe.state_dict()["delta"]
    assert torch.equal(then[5:], left[5:])
    assert not torch.equal(then[:5], left[:5])


def test_the_perturbation_survives_the_end_of_an_epoch_and_a_kill() -> None:
    assert same(trained_in_pieces(Free, batches(epochs=2)), trained(Free(), batches(epochs=2)))


@pytest.mark.parametrize("size", [8, 7])
def test_two_processes_keep_the_perturbation_of_the_whole_batch(size: int) -> None:
    x, y, keys = batches(sizes=(size,))[0]
    parts = [Free(replays=1, processes=half) for half in halves()]
    for recipe in parts:
        which = slice(recipe.processes.index, None, 2)
        descend(recipe, network(), [(x[which], y[which], keys[which])])
    kept = [recipe.delta for recipe in parts]
    parts[0].state_dict()
    whole = parts[1].state_dict()["delta"]
    assert whole.shape == x.shape
    for recipe, part in zip(parts, kept, strict=True):
        assert part is not None
        assert torch.equal(whole[recipe.processes.index :: 2], part)
        recipe.load_state_dict({"delta": whole})
        assert recipe.delta is not None
        assert torch.equal(recipe.delta, part)


def test_what_is_used_wrongly_is_refused() -> None:
    model, (x, y, keys) = network(), batches()[0]
    recipe = Free()
    replays = recipe(model, x, y, keys)
    next(replays)
    with pytest.raises(InputError, match="the loss was not descended"):
        next(replays)
    descend(recipe, model, batches()[:1])
    with pytest.raises(InputError, match=r"the perturbation is for images \(3, 8, 8\), got \(3, 9, 9\)"):
        next(iter(recipe(model, torch.zeros(2, 3, 9, 9), y[:2], keys[:2])))
    assert Free().state_dict() == {}
