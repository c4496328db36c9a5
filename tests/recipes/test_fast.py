"""Fast-AT, against a plain implementation."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from ctrobust import draws, losses
from ctrobust.recipes import Fast, Madry
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
    watched,
)  # fmt: skip
from tests.recipes.formulas import LABEL_OBJECTIVES, Label, ce

SIZE = 10 / 255


def plain(
    model: nn.Module, descending: torch.optim.SGD, made: Sequence[Batch], *,
    eps: float = EPS, size: float = SIZE, attack: Label = ce, descent: Label = ce, seed: int = 0,
) -> None:  # fmt: skip
    """The published code: one step from a random start, then one descent."""
    for batch, (x, y, keys) in enumerate(made):
        noise = draws.uniform(keys, draws.stream(seed, "start", batch), tuple(x.shape[1:])).to(x)
        start = torch.clamp(x + (noise * (2 * eps) - eps), 0, 1).requires_grad_()
        attack(model(start), y).sum().backward()
        assert start.grad is not None
        adv = start.detach() + size * torch.sign(start.grad)
        adv = torch.clamp(torch.max(torch.min(adv, x + eps), x - eps), 0, 1)
        descending.zero_grad()
        descent(model(adv), y).mean().backward()
        descending.step()


def test_without_gamma_the_weights_are_those_of_the_baseline_to_the_bit() -> None:
    assert same(trained(Fast(), batches(epochs=2)), plainly_trained(plain, batches(epochs=2)))


@pytest.mark.parametrize(
    ("fields", "plainly"),
    [
        *LABEL_OBJECTIVES,
        ({"eps": 0.1}, {"eps": 0.1, "size": 0.125}),
        ({"step_size": 0.01}, {"size": 0.01}),
        ({"eps": 0.02, "step_size": 0.03}, {"eps": 0.02, "size": 0.03}),
        ({"seed": 1}, {"seed": 1}),
    ],
)
def test_with_any_settings_the_points_and_weights_are_those_of_the_formulas(
    fields: dict[str, Any], plainly: dict[str, Any]
) -> None:
    assert_same_course(Fast(**fields), partial(plain, **plainly), batches())


def test_gamma_changes_them_wherever_it_acts() -> None:
    made = batches()
    found = [
        trained(Fast(), made),
        trained(Fast(gamma=2.0), made),
        trained(Fast(gamma=2.0, gamma_in="attack"), made),
        trained(Fast(gamma=2.0, gamma_in="descent"), made),
        trained(Fast(loss="std"), made),
        trained(Fast(seed=1), made),
    ]
    assert not any(same(one, two) for i, one in enumerate(found) for two in found[:i])


def test_it_descends_sce_of_the_attacked_images() -> None:
    model, (x, y, keys) = network(), batches()[0]
    passes = watched(model)
    (loss,) = Fast(gamma=2.0)(model, x, y, keys)
    assert torch.equal(loss, losses.sce(network()(passes.inputs[1]), y, gamma=2.0).mean())


def test_one_step_in_training_mode_without_gradients_of_parameters() -> None:
    model, (x, y, keys) = network(), batches()[0]
    passes = watched(model)
    steps = Fast()(model, x, y, keys)
    loss = next(steps)
    assert (passes.training, passes.wanted) == ([True, True], [False, True])
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(in_bounds(seen, x) for seen in passes.inputs)
    moved = (passes.inputs[1] - passes.inputs[0]).abs().max().item()
    assert EPS < moved <= SIZE + 1e-6
    assert all(part.num_batches_tracked == 2 for part in model.modules() if isinstance(part, nn.BatchNorm2d))
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert next(steps, None) is None


def test_it_is_madrys_with_one_large_step() -> None:
    made = batches()
    assert same(trained(Fast(gamma=1.0), made), trained(Madry(steps=1, step_size=SIZE, gamma=1.0), made))


def test_starts_differ_from_epoch_to_epoch() -> None:
    model = network()
    passes = watched(model)
    descend(Fast(), model, batches(epochs=3, sizes=(8,)))
    first, second, third = passes.inputs[::2]
    for one, two in ((first, second), (second, third), (first, third)):
        assert (one != two).float().mean() > 0.8


def test_it_learns_and_bf16_logits_are_welcome() -> None:
    model, made = network(), batches(sizes=(16,)) * 25
    losses_ = descend(Fast(gamma=1.0), model, made)
    assert losses_[-1] < 0.5 * losses_[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        (loss,) = Fast(gamma=1.0)(model, *made[0])
    assert loss.dtype == torch.float32
    assert loss.isfinite()
