"""The gradient of the mean loss over several passes, from attack losses that replace the loss."""

import pytest
import torch
from torch import Tensor

from ctrobust.attacks.attack_losses import resolve_loss
from ctrobust.attacks.eot import EOTAverage
from tests.attacks.rows import LOSS_ROWS

PAIRS = {text: row.plain for text, row in LOSS_ROWS.items() if row.plain is not None}


def passes(x: Tensor, y: Tensor, scale: float) -> list[Tensor]:
    """Logits of four passes of a randomized linear model, wrong in some of them."""
    generator = torch.Generator().manual_seed(0)
    weights = scale * torch.randn(4, x.shape[1], 5, generator=generator, dtype=torch.float64)
    boost = torch.nn.functional.one_hot(y, 5) * scale
    return [x @ weight + boost for weight in weights]


@pytest.mark.parametrize("text", PAIRS)
@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_the_gradient_has_the_direction_of_the_mean_losss_gradient(text: str, scale: float) -> None:
    y = torch.arange(20) % 5
    x = torch.rand(20, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64).requires_grad_()
    mean = torch.stack([PAIRS[text](logits, y) for logits in passes(x, y, scale)]).mean(0)
    (expected,) = torch.autograd.grad(mean.sum(), x)
    for negated in (False, True):
        average = EOTAverage(resolve_loss(text), negated=negated)
        for logits in passes(x, y, scale):
            values = resolve_loss(text).untargeted(logits, y, logits) * (-1 if negated else 1)
            (gradient,) = torch.autograd.grad(values.sum(), x)
            average.add(gradient, values.detach(), logits.detach())
        found, values, _ = average.result()
        sign = -1 if negated else 1
        torch.testing.assert_close(
            sign * found / found.norm(dim=1, keepdim=True), expected / expected.norm(dim=1, keepdim=True)
        )
        order = mean.detach().argsort()
        assert (values[order].diff() * sign >= -1e-12).all()
