import pytest
import torch
from torch import Tensor, nn

from ctrobust.evaluation.gradient_measurements import ZeroGradient, margin_changes, zero_gradients


class Saturated(nn.Module):
    """Logits whose gap is too large for the gradient of cross-entropy on every second image."""

    def forward(self, x: Tensor) -> Tensor:
        gap = x.flatten(1).sum(1) * torch.tensor([1.0, 1000.0]).repeat(len(x) // 2)
        return torch.stack([gap, -gap], 1)


class Threshold(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.linear((x > 0.5).to(x))
        return logits


def linear(weights: list[float], bias: float) -> nn.Sequential:
    """The logit of class 1 is zero."""
    layer = nn.Linear(4, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([weights, [0.0] * 4]))
        layer.bias.copy_(torch.tensor([bias, 0.0]))
    return nn.Sequential(nn.Flatten(), layer)


def test_where_cross_entropy_underflows() -> None:
    x, y = torch.full((4, 1, 2, 2), 0.25), torch.zeros(4, dtype=torch.int64)
    zeros, differentiable = zero_gradients(Saturated(), x, y)
    assert differentiable
    assert zeros["ce"].tolist() == [False, True, False, True]
    assert zeros["margin"].tolist() == [False] * 4


@pytest.mark.parametrize("frozen", [False, True])
def test_a_model_that_cannot_be_differentiated(frozen: bool) -> None:
    """With and without parameters that need gradients: in the second case the logits need none at all."""
    model = Threshold().requires_grad_(not frozen)
    x, y = torch.rand(3, 4), torch.zeros(3, dtype=torch.int64)
    zeros, differentiable = zero_gradients(model, x, y)
    assert not differentiable
    assert zeros["ce"].all()
    assert zeros["margin"].all()
    leaf = x.clone().requires_grad_()
    logits = ZeroGradient(model)(leaf)
    assert torch.equal(logits, model(x))
    (gradient,) = torch.autograd.grad(logits.sum(), leaf)
    assert gradient.tolist() == torch.zeros(3, 4).tolist()


def test_changes_of_a_linear_margin() -> None:
    """The margin of the image is 1, and noise of radius r changes it by at most r times the l1 norm, 0.4."""
    model = linear([0.1] * 4, 0.8)
    x, y = torch.full((5, 1, 2, 2), 0.5), torch.zeros(5, dtype=torch.int64)
    changes = margin_changes(model, x, y, torch.arange(5), radius=0.2, norm="linf", count=50, seed=0)
    assert (changes > 0).all()
    assert (changes < 0.08).all()
    assert changes.unique().numel() == 5  # each example has draws of its own
    again = margin_changes(model, x[2:], y[2:], torch.arange(2, 5), radius=0.2, norm="linf", count=50, seed=0)
    torch.testing.assert_close(again, changes[2:])


def test_changes_are_bounded_by_one() -> None:
    model = linear([1e6] * 4, -2e6 + 1)
    x, y = torch.full((3, 1, 2, 2), 0.5), torch.zeros(3, dtype=torch.int64)
    changes = margin_changes(model, x, y, torch.arange(3), radius=0.2, norm="linf", count=20, seed=0)
    assert (changes > 0.9).all()
    assert (changes <= 1).all()
