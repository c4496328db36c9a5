"""Steps and projections in the norms of the attacks, the pixel box included."""

from typing import Literal

import torch
from torch import Tensor

Norm = Literal["linf", "l2"]
NORMS: tuple[Norm, ...] = ("linf", "l2")

TINY = 1e-12


def least(dtype: torch.dtype, value: float = TINY) -> float:
    """A small number to divide by, which the type has."""
    return max(value, torch.finfo(dtype).tiny)


def linf_bounds(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The corners of the eps-ball cut by the box [0, 1]: clamping to them projects on the ball, then on the box."""
    return (x - eps).clamp_(min=0.0), (x + eps).clamp_(max=1.0)


def l2_norm(values: Tensor) -> Tensor:
    """The l2 norm of each example, (N, 1, ...), to be multiplied with it."""
    norms: Tensor = torch.linalg.vector_norm(values.flatten(1), dim=1)
    return norms.view(-1, *[1] * (values.dim() - 1))


def project(adv: Tensor, x: Tensor, eps: float, norm: Norm) -> Tensor:
    """On the eps-ball around x, then on the box, in place.

    The box holds x, so the second projection never leaves the ball.
    """
    if norm == "linf":
        return adv.clamp_(*linf_bounds(x, eps))
    offset = adv.sub_(x)
    offset.mul_((eps / l2_norm(offset).clamp_(min=least(x.dtype))).clamp_(max=1.0))
    return offset.add_(x).clamp_(0.0, 1.0)


def steepest(gradient: Tensor, norm: Norm) -> Tensor:
    """The direction of unit norm along which the objective grows most, in place: its sign, or for l2 its own scaled.

    A zero gradient gives zero.
    """
    if norm == "linf":
        return gradient.sign_()
    # Scaled to at most 1 first: the squares of very small gradients would be lost.
    gradient /= (
        gradient.flatten(1)
        .abs()
        .amax(1)
        .clamp_(min=torch.finfo(gradient.dtype).tiny)
        .view(-1, *[1] * (gradient.dim() - 1))
    )
    return gradient.div_(l2_norm(gradient).clamp_(min=least(gradient.dtype)))


def distance(adv: Tensor, x: Tensor, norm: Norm) -> Tensor:
    """How far images are from x, (N,)."""
    offset = adv - x
    return offset.flatten(1).abs().amax(1) if norm == "linf" else l2_norm(offset).flatten()
