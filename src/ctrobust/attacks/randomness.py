"""Random starts, keyed by example: independent of batch size, order, sharding, and of who was dropped before."""

from torch import Tensor

from ctrobust import draws
from ctrobust.attacks.projections import linf_bounds


def linf_start(x: Tensor, keys: Tensor, stream: int, eps: float) -> Tensor:
    """Uniform in the eps-ball around x, not yet in the box."""
    noise = draws.uniform(keys, stream, tuple(x.shape[1:])).to(x)
    return x + (noise * (2 * eps) - eps)


def beside(x: Tensor, keys: Tensor, stream: int, eps: float) -> Tensor:
    """Where divergences, flat at x, begin: x + 0.001 N(0, 1), in the eps-ball and the box."""
    return normal_start(x, keys, stream, 0.001).clamp_(*linf_bounds(x, eps))


def normal_start(x: Tensor, keys: Tensor, stream: int, scale: float) -> Tensor:
    """The start x + scale N(0, 1), not yet in the box."""
    return x + scale * draws.normal(keys, stream, tuple(x.shape[1:])).to(x)
