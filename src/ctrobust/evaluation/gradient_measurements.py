"""What gradients and small steps say about a model at the clean images, and a model without gradients for attacks."""

import torch
from torch import Tensor, nn

from ctrobust import draws, losses
from ctrobust.attacks import Norm
from ctrobust.attacks.projections import project
from ctrobust.attacks.random_starts import ball_start
from ctrobust.model_outputs import as_logits


class ZeroGradient(nn.Module):
    """A model whose gradient is zero, instead of an error, where it cannot be differentiated by its images."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.training = model.training

    def forward(self, x: Tensor) -> Tensor:
        logits = as_logits(self.model(x))
        return logits + 0 * x.flatten(1).sum(1, keepdim=True).to(logits)


def zero_gradients(model: nn.Module, x: Tensor, y: Tensor) -> tuple[dict[str, Tensor], bool]:
    """Return for CE and the margin where (N,) the gradient is exactly zero, and whether the model has gradients.

    The losses are the plain ones: an attack's log-space forms do not underflow where these do.
    """
    leaf = x.detach().clone().requires_grad_()
    logits = as_logits(model(leaf))
    differentiable = logits.requires_grad
    zeros = {}
    for name, loss in (("ce", losses.cross_entropy), ("margin", losses.margin)):
        gradient = None
        if logits.requires_grad:
            (gradient,) = torch.autograd.grad(loss(logits, y).sum(), leaf, retain_graph=True, allow_unused=True)
        differentiable = gradient is not None
        found = torch.zeros_like(leaf) if gradient is None else gradient
        zeros[name] = (found == 0).flatten(1).all(1)
    return zeros, differentiable


def margin_changes(
    model: nn.Module, x: Tensor, y: Tensor, keys: Tensor, *, radius: float, norm: Norm, count: int, seed: int
) -> Tensor:
    """Return (N,) the mean over `count` draws d in the ball of min(1, |L(x) - L(x + d)| / |L(x)|), L the margin."""
    with torch.no_grad():
        at_x = losses.margin(as_logits(model(x)), y)
        total = torch.zeros_like(at_x)
        for number in range(count):
            stream = draws.stream(seed, "masking", "surface", number)
            noisy = project(ball_start(x, keys, stream, radius, norm), x, radius, norm)
            change = (losses.margin(as_logits(model(noisy)), y) - at_x).abs()
            total += (change / at_x.abs().clamp(min=torch.finfo(at_x.dtype).tiny)).clamp(max=1.0)
    return total / count
