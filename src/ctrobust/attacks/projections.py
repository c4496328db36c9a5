"""Steps and projections in the l-infinity and l2 norm, including the projection on the pixel box [0, 1]."""

import torch
from torch import Tensor

from ctrobust.specs.attack_fields import Norm

TINY = 1e-12


def least(dtype: torch.dtype, value: float = TINY) -> float:
    """Return a smallest divisor that the dtype can represent."""
    return max(value, torch.finfo(dtype).tiny)


def linf_bounds(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return the bounds of the eps-ball within the box [0, 1]: clamping to them projects on both."""
    return (x - eps).clamp_(min=0.0), (x + eps).clamp_(max=1.0)


def l2_norm(values: Tensor) -> Tensor:
    """Return the l2 norm of each example, (N, 1, ...), in a shape that broadcasts."""
    norms: Tensor = torch.linalg.vector_norm(values.flatten(1), dim=1)
    return norms.view(-1, *[1] * (values.dim() - 1))


def project(adv: Tensor, x: Tensor, eps: float, norm: Norm) -> Tensor:
    """Project on the eps-ball around x, then on the box, in place.

    The box contains x, so the second projection does not leave the ball.
    """
    if norm == "linf":
        return adv.clamp_(*linf_bounds(x, eps))
    offset = adv.sub_(x)
    offset.mul_((eps / l2_norm(offset).clamp_(min=least(x.dtype))).clamp_(max=1.0))
    return offset.add_(x).clamp_(0.0, 1.0)


def steepest(gradient: Tensor, norm: Norm) -> Tensor:
    """Return the steepest direction of unit norm, in place: the gradient's sign, or in l2 the normalized gradient.

    A zero gradient gives zero.
    """
    if norm == "linf":
        return gradient.sign_()
    # Scaled to at most 1 first: the squares of very small gradients would underflow.
    gradient /= (
        gradient.flatten(1)
        .abs()
        .amax(1)
        .clamp_(min=torch.finfo(gradient.dtype).tiny)
        .view(-1, *[1] * (gradient.dim() - 1))
    )
    return gradient.div_(l2_norm(gradient).clamp_(min=least(gradient.dtype)))


def distance(adv: Tensor, x: Tensor, norm: Norm) -> Tensor:
    """Return the distance of images from x, (N,)."""
    offset = adv - x
    return offset.flatten(1).abs().amax(1) if norm == "linf" else l2_norm(offset).flatten()
