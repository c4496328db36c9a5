"""Random starts keyed by example: independent of batch size, order, sharding and of which examples are active."""

import math

import torch
from torch import Tensor

from ctrobust import draws
from ctrobust.attacks.projections import TINY, l2_norm, project, steepest
from ctrobust.specs.attack_fields import Norm


def ball_start(x: Tensor, keys: Tensor, stream: int, eps: float, norm: Norm) -> Tensor:
    """Draw uniformly from the eps-ball around x, without projecting on the box."""
    shape = tuple(x.shape[1:])
    if norm == "linf":
        return x + (draws.uniform(keys, stream, shape).to(x) * (2 * eps) - eps)
    direction = draws.normal(keys, stream, shape).to(x)
    # The largest of d uniform draws is a uniform one's d-th root, and has the same bits in any batch, unlike pow.
    radius = draws.uniform(keys, draws.stream(stream, "radius"), (math.prod(shape),)).amax(1).to(x)
    return x + direction * (eps * radius.view(-1, *[1] * len(shape)) / l2_norm(direction).clamp_(min=TINY))


def sphere_start(x: Tensor, keys: Tensor, stream: int, eps: float, norm: Norm) -> Tensor:
    """Return x + eps t, projected on the box: t is uniform, scaled to max |t| = 1; in l2 normal, scaled to |t| = 1."""
    shape = tuple(x.shape[1:])
    if norm == "l2":
        offset = steepest(draws.normal(keys, stream, shape).to(x), norm)
    else:
        offset = draws.uniform(keys, stream, shape).to(x).mul_(2).sub_(1)
        longest = offset.flatten(1).abs().amax(1).clamp_(min=torch.finfo(x.dtype).tiny)
        offset /= longest.view(-1, *[1] * len(shape))
    return project(offset.mul_(eps).add_(x), x, eps, norm)


def near_start(x: Tensor, keys: Tensor, stream: int, eps: float, norm: Norm = "linf") -> Tensor:
    """Return x + 0.001 N(0, 1) in the eps-ball and the box: divergences have no gradient at x."""
    return project(normal_start(x, keys, stream, 0.001), x, eps, norm)


def normal_start(x: Tensor, keys: Tensor, stream: int, scale: float) -> Tensor:
    """Return x + scale N(0, 1), without projecting on the box."""
    return x + scale * draws.normal(keys, stream, tuple(x.shape[1:])).to(x)
