"""Madry-AT, against a plain implementation."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from ctrobust import draws, losses
from ctrobust.recipes import Madry
from tests.recipes.descent import (
    EPS,
    Batch,
    assert_same_course,
    batches,
    in_bounds,
    network,
    plainly_trained,
    same,
    statistics,
    trained,
    watched,
)  # fmt: skip
from tests.recipes.formulas import LABEL_OBJECTIVES, STEPS, Label, ce

SIZE = 2 / 255


def plain(
    model: nn.Module, descending: torch.optim.SGD, made: Sequence[Batch], *,
    eps: float = EPS, steps: int = 7, size: float = SIZE, attack: Label = ce, descent: Label = ce, seed: int = 0,
) -> None:  # fmt: skip
    """The published code: PGD with backward through everything, then one descent."""
    for batch, (x, y, keys) in enumerate(made):
        noise = draws.uniform(keys, draws.stream(seed, "start", batch), tuple(x.shape[1:])).to(x)
        adv = torch.clamp(x + (noise * (2 * eps) - eps), 0, 1)
        for _ in range(steps):
            adv = adv.detach().requires_grad_()
            attack(model(adv), y).sum().backward()
            assert adv.grad is not None
            adv = adv.detach() + size * torch.sign(adv.grad)
            adv = torch.clamp(torch.max(torch.min(adv, x + eps), x - eps), 0, 1)
        descending.zero_grad()
        descent(model(adv), y).mean().backward()
        descending.step()


def test_without_gamma_the_weights_are_those_of_the_baseline_to_the_bit() -> None:
    assert same(trained(Madry(), batches()), plainly_trained(plain, batches()))


@pytest.mark.parametrize(
    ("fields", "plainly"),
    [
        *LABEL_OBJECTIVES,
        ({"eps": 0.1}, {"eps": 0.1, "size": 0.025}),
        *STEPS,
    ],
)
def test_with_any_settings_the_points_and_weights_are_those_of_the_formulas(
    fields: dict[str, Any], plainly: dict[str, Any]
) -> None:
    assert_same_course(Madry(**fields), partial(plain, **plainly), batches())


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
