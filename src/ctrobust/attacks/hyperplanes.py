"""How far an image is from a hyperplane, and the shortest way there that stays in the pixel box."""

import torch
from torch import Tensor

from ctrobust.attacks.projections import Norm


def _scaled(normal: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """|normal| (n, D) with its largest entry 1, so that no square is lost, and |value| (n,) in the same scale."""
    weight, kind = normal.abs(), torch.finfo(normal.dtype)
    scale = weight.amax(1).clamp_(min=kind.tiny)
    return weight.div_(scale[:, None]), value.abs().div_(scale).clamp_(max=kind.max)


def off(normal: Tensor, value: Tensor, norm: Norm) -> Tensor:
    """How far (n,) hyperplanes are without the box: |value| / |normal|, the normal's in l1 for linf.

    Inf or NaN where the normal is zero.

    Example:
        >>> normal, value = torch.tensor([[3.0, -4.0]]), torch.tensor([5.0])
        >>> round(off(normal, value, "l2").item(), 6), round(off(normal, value, "linf").item(), 6)
        (1.0, 0.714286)
    """
    weight, gap = _scaled(normal, value)
    return gap.div_(weight.sum(1) if norm == "linf" else torch.linalg.vector_norm(weight, dim=1))


def shortest(x: Tensor, normal: Tensor, value: Tensor, norm: Norm) -> Tensor:
    """The shortest d (n, D) with value + normal . d = 0 and x + d in the box; where there is none, to the best corner.

    d_i = s_i min(r u_i, room_i) with sum_i |normal_i| min(r u_i, room_i) = |value|, where s is the sign of -value
    normal, u is 1 in linf and |normal| in l2, and room is the way to the side of the box that s points to. Where the
    normal is zero, d is.

    Args:
        x: (n, D), in [0, 1].
        normal: (n, D), of the hyperplanes.
        value: (n,), what is left at x.
        norm: whose d is shortest.

    Example:
        >>> x, normal = torch.tensor([[0.5, 0.875, 0.0]]), torch.tensor([[1.0, 1.0, 0.0]])
        >>> shortest(x, normal, torch.tensor([-0.5]), "linf").tolist()
        [[0.375, 0.125, 0.0]]
    """
    weight, gap = _scaled(normal, value)
    side = torch.sign(normal).mul_(-torch.sign(value)[:, None])
    room = side.add(1).mul_(0.5).sub_(x).abs_()
    if norm == "linf":
        return torch.minimum(room, _reach(weight, room, weight * room, gap)).mul_(side)
    end = room / weight.clamp(min=torch.finfo(x.dtype).tiny)
    r = _reach(weight.square(), end, weight * room, gap)
    return torch.minimum(room, weight.mul_(r)).mul_(side)


def _reach(slope: Tensor, end: Tensor, most: Tensor, gap: Tensor) -> Tensor:
    """The r (n, 1) with sum_i min(slope_i r, most_i) = gap, where most = slope end; huge where the sum stays below.

    By Newton's method. The sum is concave and piecewise linear, so from the left it does not overshoot, passes an end
    in each round, and stops at the exact r: after three to seven rounds mostly, in a tenth of the time of sorting
    the ends. Rows that have stopped stay while others go on.
    """
    huge, gap, mask = torch.finfo(gap.dtype).max, gap[:, None], torch.empty_like(end)
    r = torch.zeros_like(gap)
    while True:
        # Comparisons give numbers here: masks of booleans are several times slower to multiply by.
        rate = torch.gt(end, r, out=mask).mul_(slope).sum(1, keepdim=True)
        spent = torch.le(end, r, out=mask).mul_(most).sum(1, keepdim=True)
        further = torch.where(rate > 0, (gap - spent) / rate, huge).clamp_(max=huge)
        if not (further > r).any():
            return r
        r = torch.maximum(r, further)
