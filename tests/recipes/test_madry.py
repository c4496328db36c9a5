"""Madry-AT, against a reference implementation."""

from collections.abc import Sequence

import torch
from torch import nn

from ctrobust import draws, losses
from ctrobust.recipes import Madry
from tests.recipes.descent import (
    EPS,
    Batch,
    batches,
    in_ball_and_box,
    network,
    record_passes,
    same,
    statistics,
)  # fmt: skip
from tests.recipes.formulas import Label, ce

STEP_SIZE = 2 / 255


def reference(
    model: nn.Module, sgd: torch.optim.SGD, data: Sequence[Batch], *, eps: float = EPS, steps: int = 7,
    step_size: float = STEP_SIZE, attack: Label = ce, descent: Label = ce, seed: int = 0,
) -> None:  # fmt: skip
    """The published code: PGD that also computes parameter gradients, then one optimizer step."""
    for batch, (x, y, keys) in enumerate(data):
        noise = draws.uniform(keys, draws.stream(seed, "start", batch), tuple(x.shape[1:])).to(x)
        adv = torch.clamp(x + (noise * (2 * eps) - eps), 0, 1)
        for _ in range(steps):
            adv = adv.detach().requires_grad_()
            attack(model(adv), y).sum().backward()
            assert adv.grad is not None
            adv = adv.detach() + step_size * torch.sign(adv.grad)
            adv = torch.clamp(torch.max(torch.min(adv, x + eps), x - eps), 0, 1)
        sgd.zero_grad()
        descent(model(adv), y).mean().backward()
        sgd.step()


def test_the_loss_is_sce_of_the_attacked_images() -> None:
    model, (x, y, keys) = network(), batches()[0]
    passes = record_passes(model)
    (loss,) = Madry(gamma=3.0)(model, x, y, keys)
    again = network()
    for seen in passes.inputs[:-1]:
        again(seen)  # updates the running statistics, which training mode does not use
    assert torch.equal(loss, losses.sce(again(passes.inputs[-1]), y, gamma=3.0).mean())


def test_all_passes_run_in_training_mode_and_update_the_statistics() -> None:
    model, (x, y, keys) = network(), batches()[0]
    passes = record_passes(model)
    (loss,) = Madry()(model, x, y, keys)
    assert passes.training == [True] * 8
    assert passes.parameter_gradients == [False] * 7 + [True]
    assert all(module.num_batches_tracked == 8 for module in model.modules() if isinstance(module, nn.BatchNorm2d))
    by_hand = network()
    for seen in passes.inputs:
        by_hand(seen)
    assert same(statistics(model), statistics(by_hand))
    assert loss.requires_grad


def test_the_attack_does_not_touch_parameter_gradients() -> None:
    model, (x, y, keys) = network(), batches()[0]
    marks = [torch.full_like(parameter, 7.0) for parameter in model.parameters()]
    for parameter, mark in zip(model.parameters(), marks, strict=True):
        parameter.grad = mark.clone()
    next(iter(Madry()(model, x, y, keys)))
    for parameter, mark in zip(model.parameters(), marks, strict=True):
        assert parameter.grad is not None
        assert torch.equal(parameter.grad, mark)
        assert parameter.requires_grad


def test_each_iterate_is_in_ball_and_box_and_nothing_runs_before_the_loss_is_requested() -> None:
    model, (x, y, keys) = network(), batches()[0]
    passes = record_passes(model)
    steps = Madry()(model, x, y, keys)
    assert passes.inputs == []
    assert len(list(steps)) == 1
    assert all(in_ball_and_box(seen, x) for seen in passes.inputs)
    moved = [(after - before).abs().max() for before, after in zip(passes.inputs, passes.inputs[1:], strict=False)]
    assert all(0 < move <= STEP_SIZE + 1e-6 for move in moved)
    assert not x.requires_grad
