"""N-FGSM, against a reference implementation."""

from collections.abc import Sequence

import torch
from torch import nn

from ctrobust import draws, losses
from ctrobust.recipes import NFGSM
from tests.recipes.descent import EPS, Batch, batches, in_ball_and_box, network, record_passes
from tests.recipes.formulas import Label, ce


def reference(
    model: nn.Module, sgd: torch.optim.SGD, data: Sequence[Batch], *,
    eps: float = EPS, step_size: float = EPS, attack: Label = ce, descent: Label = ce, seed: int = 0,
) -> None:  # fmt: skip
    """The published algorithm: noise of twice the radius, one step that is not clipped to the ball."""
    for batch, (x, y, keys) in enumerate(data):
        uniform = draws.uniform(keys, draws.stream(seed, "start", batch), tuple(x.shape[1:])).to(x)
        start = torch.clamp(x + (uniform * (4 * eps) - 2 * eps), 0, 1).requires_grad_()
        attack(model(start), y).sum().backward()
        assert start.grad is not None
        adv = torch.clamp(start.detach() + step_size * torch.sign(start.grad), 0, 1)
        sgd.zero_grad()
        descent(model(adv), y).mean().backward()
        sgd.step()


def test_the_noise_has_twice_the_radius_and_the_step_is_clipped_to_the_box_only() -> None:
    model, (x, y, keys) = network(), batches()[0]
    passes = record_passes(model)
    (loss,) = NFGSM(gamma=2.0)(model, x, y, keys)
    start, adv = passes.inputs
    inside = (x > 4 * EPS) & (x < 1 - 4 * EPS)
    assert in_ball_and_box(start, x, 2 * EPS)
    assert (start - x)[inside].abs().max() > 1.95 * EPS
    assert in_ball_and_box(adv, x, 3 * EPS)
    assert (adv - x).abs().max() > 2.9 * EPS
    torch.testing.assert_close((adv - start)[inside].abs(), torch.full_like(x, EPS)[inside])
    assert passes.training == [True, True]
    assert torch.equal(loss, losses.sce(network()(adv), y, gamma=2.0).mean())
