"""Fast-AT, against a reference implementation."""

from collections.abc import Sequence

import torch
from torch import nn

from ctrobust import draws, losses
from ctrobust.recipes import Fast, Madry
from tests.recipes.descent import (
    EPS,
    Batch,
    batches,
    descend,
    in_ball_and_box,
    network,
    record_passes,
    same,
    trained,
)  # fmt: skip
from tests.recipes.formulas import Label, ce

STEP_SIZE = 10 / 255


def reference(
    model: nn.Module, sgd: torch.optim.SGD, data: Sequence[Batch], *,
    eps: float = EPS, step_size: float = STEP_SIZE, attack: Label = ce, descent: Label = ce, seed: int = 0,
) -> None:  # fmt: skip
    """The published code: one step from a random start, then one optimizer step."""
    for batch, (x, y, keys) in enumerate(data):
        noise = draws.uniform(keys, draws.stream(seed, "start", batch), tuple(x.shape[1:])).to(x)
        start = torch.clamp(x + (noise * (2 * eps) - eps), 0, 1).requires_grad_()
        attack(model(start), y).sum().backward()
        assert start.grad is not None
        adv = start.detach() + step_size * torch.sign(start.grad)
        adv = torch.clamp(torch.max(torch.min(adv, x + eps), x - eps), 0, 1)
        sgd.zero_grad()
        descent(model(adv), y).mean().backward()
        sgd.step()


def test_the_loss_is_sce_of_the_attacked_images() -> None:
    model, (x, y, keys) = network(), batches()[0]
    passes = record_passes(model)
    (loss,) = Fast(gamma=2.0)(model, x, y, keys)
    assert torch.equal(loss, losses.sce(network()(passes.inputs[1]), y, gamma=2.0).mean())


def test_the_attack_runs_in_training_mode_without_parameter_gradients() -> None:
    model, (x, y, keys) = network(), batches()[0]
    passes = record_passes(model)
    steps = Fast()(model, x, y, keys)
    loss = next(steps)
    assert (passes.training, passes.parameter_gradients) == ([True, True], [False, True])
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(in_ball_and_box(seen, x) for seen in passes.inputs)
    moved = (passes.inputs[1] - passes.inputs[0]).abs().max().item()
    assert EPS < moved <= STEP_SIZE + 1e-6
    assert all(module.num_batches_tracked == 2 for module in model.modules() if isinstance(module, nn.BatchNorm2d))
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert next(steps, None) is None


def test_fast_equals_madry_with_one_large_step() -> None:
    data = batches()
    assert same(trained(Fast(gamma=1.0), data), trained(Madry(steps=1, step_size=STEP_SIZE, gamma=1.0), data))


def test_starts_differ_between_epochs() -> None:
    model = network()
    passes = record_passes(model)
    descend(Fast(), model, batches(epochs=3, sizes=(8,)))
    first, second, third = passes.inputs[::2]
    for one, two in ((first, second), (second, third), (first, third)):
        assert (one != two).float().mean() > 0.8


def test_the_loss_decreases_and_bf16_logits_are_accepted() -> None:
    model, data = network(), batches(sizes=(16,)) * 25
    values = descend(Fast(gamma=1.0), model, data)
    assert values[-1] < 0.5 * values[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        (loss,) = Fast(gamma=1.0)(model, *data[0])
    assert loss.dtype == torch.float32
    assert loss.isfinite()
