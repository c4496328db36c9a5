"""The random starts and candidates of the Square attack, in each norm. Every draw is keyed by example."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ctrobust import draws
from ctrobust.attacks.projections import TINY, l2_norm, linf_bounds, project
from ctrobust.specs.attack_fields import Norm

MIN_DIRECTION = 1e-4
"""If the sum of the old and the new unit direction is shorter than this, the new direction replaces the old."""


@dataclass(frozen=True)
class SquareSampler:
    """How Square samples in one norm: the start, and the candidate image of a query.

    The draws of several queries are made at once: their tensors have shape (queries, n, ...).

    Attributes:
        min_side: the smallest side length of a square.
        constants: (x, eps) -> tensors (n, ...) that stay the same during the search.
        start: (constants, keys, stream, eps) -> the first images (n, C, H, W).
        draw: (keys, stream, sides, (C, H, W)) -> the random draws of queries with these side lengths.
        candidate: (constants, adv, draws of one query, side, eps) -> the candidate images (n, C, H, W).
    """

    min_side: int
    constants: Callable[[Tensor, float], tuple[Tensor, ...]]
    start: Callable[[Sequence[Tensor], Tensor, int, float], Tensor]
    draw: Callable[[Tensor, int, Sequence[int], torch.Size], tuple[Tensor, ...]]
    candidate: Callable[[Sequence[Tensor], Tensor, Sequence[Tensor], int, float], Tensor]


def random_corners(keys: Tensor, stream: int, sides: Sequence[int], limits: Sequence[int]) -> Tensor:
    """Draw uniform integers in 0..limit-side for every query, example and limit: (queries, n, limits) int64.

    Example:
        >>> random_corners(torch.tensor([5, 6]), draws.stream(0), [3], (4, 8))
        tensor([[[1, 4],
                 [0, 0]]])
    """
    count = len(sides) * len(limits)
    halves = draws.words(keys, stream, -(-count // 2)).view(torch.int32)[:, :count].to(torch.int64) & 0xFFFFFFFF
    choices = torch.tensor(limits, device=keys.device) - torch.tensor(sides, device=keys.device)[:, None] + 1
    return ((halves.view(len(keys), *choices.shape) * choices) >> 32).transpose(0, 1).contiguous()


def random_bits(keys: Tensor, stream: int, queries: int, count: int) -> Tensor:
    """Draw booleans that are true with probability 1/2, (queries, n, count)."""
    return draws.keep(keys, stream, queries * count, 0.5).view(len(keys), queries, count).transpose(0, 1).contiguous()


def _stripe_start(constants: Sequence[Tensor], keys: Tensor, stream: int, eps: float) -> Tensor:  # noqa: ARG001
    """Add +-eps to each column of each channel; the sampler's constants already contain eps."""
    (low, high), (_, C, _, W) = constants, constants[0].shape
    return torch.where(draws.keep(keys, stream, C * W, 0.5).view(-1, C, 1, W), high, low)


def _draw_squares(keys: Tensor, stream: int, sides: Sequence[int], shape: torch.Size) -> tuple[Tensor, ...]:
    """Draw the squares as masks of rows (queries, n, H) and columns (queries, n, W), and a sign per channel."""
    C, H, W = shape
    first = random_corners(keys, draws.stream(stream, "places"), sides, (H, W))
    end = first + torch.tensor(sides, device=keys.device)[:, None, None]
    rows, columns = (
        (at >= first[..., axis, None]) & (at < end[..., axis, None])
        for axis, at in enumerate(torch.arange(size, device=keys.device) for size in (H, W))
    )
    return rows, columns, random_bits(keys, draws.stream(stream, "signs"), len(sides), C)


def _square_candidate(
    constants: Sequence[Tensor], adv: Tensor, drawn: Sequence[Tensor], side: int, eps: float  # noqa: ARG001
) -> Tensor:  # fmt: skip
    """Add +-2 eps to each channel of the square and clip to ball and box.

    Every pixel is at one end of its range from the start, so the result is the one end or the other.
    """
    (low, high), (rows, columns, positive) = constants, drawn
    inside = rows[:, None, :, None] & columns[:, None, None, :]
    return torch.where(inside, torch.where(positive[:, :, None, None], high, low), adv)


@functools.lru_cache(maxsize=64)
def bump_pattern(side: int) -> Tensor:
    """The paper's eta of unit norm: two bumps of opposite signs, side by side and one below the other, (2, side, side).

    eta_rc = sum_{k=0}^{M} 1 / (n + 1 - k)^2,  M = n - max(|r - centre|, |c - centre|),  n half of the longer side

    Example:
        >>> bump_pattern(2)[1]
        tensor([[ 0.1387,  0.6934],
                [-0.1387, -0.6934]], dtype=torch.float64)
    """
    n, half = side // 2, side // 2
    heights = torch.arange(1, n + 2, dtype=torch.float64).pow(-2).flip(0).cumsum(0).flip(0)
    from_centre = (torch.arange(side) - n).abs()

    def bump(width: int) -> Tensor:
        return heights[torch.maximum(from_centre[:, None], (torch.arange(width) - width // 2).abs())]

    eta = torch.cat([bump(half), -bump(side - half)], 1)
    eta /= eta.norm()
    return torch.stack([eta, eta.T])


def _tile_start(constants: Sequence[Tensor], keys: Tensor, stream: int, eps: float) -> Tensor:
    """Add a grid of bump patterns, five across the shorter side, scaled to a perturbation of l2 norm eps."""
    (x,), (n, C, H, W) = constants, constants[0].shape
    side = max(min(H, W) // 5, 1)
    down, across = H // side, W // side
    positive = draws.keep(keys, draws.stream(stream, "signs"), C * down * across, 0.5).view(n, C, down, across, 1, 1)
    transposed = draws.keep(keys, draws.stream(stream, "turns"), down * across, 0.5).view(n, 1, down, across)
    tiles = bump_pattern(side).to(x)[transposed.to(torch.int64)] * torch.where(positive, 1.0, -1.0).to(x)
    perturbation, top, left = torch.zeros_like(x), (H - down * side) // 2, (W - across * side) // 2
    perturbation[:, :, top : top + down * side, left : left + across * side] = tiles.transpose(3, 4).reshape(
        n, C, down * side, across * side
    )
    return project(perturbation.mul_(eps / l2_norm(perturbation)).add_(x), x, eps, "l2")


def _draw_windows(keys: Tensor, stream: int, sides: Sequence[int], shape: torch.Size) -> tuple[Tensor, ...]:
    """Draw the corners (row, column, row, column) of two windows, whether eta is transposed, and a sign per channel."""
    C, H, W = shape
    bits = random_bits(keys, draws.stream(stream, "signs"), len(sides), C + 1)
    corners = random_corners(keys, draws.stream(stream, "places"), sides, (H, W, H, W))
    return corners, bits[..., 0].to(torch.int64), bits[..., 1:]


def _window_candidate(
    constants: Sequence[Tensor], adv: Tensor, drawn: Sequence[Tensor], side: int, eps: float
) -> Tensor:
    """In each channel, move the perturbation's norm in two windows into the first, and add eta to its direction there.

    v1 <- (s eta + v1/|v1|) / |s eta + v1/|v1|| * sqrt(|v in both|^2 + (eps^2 - |v|^2) / C);  v2 <- 0
    """
    (x,), (corners, transposed, positive) = constants, drawn
    n, C, H, W = x.shape
    perturbation = (adv - x).reshape(n, C, H * W)
    unused = (eps**2 - perturbation.square().sum((1, 2), keepdim=True)).clamp_(min=0.0) / C
    at = torch.arange(side, device=x.device)
    pixels = (at[:, None] * W + at).flatten()
    window1, window2 = (
        (corners[:, k, None] * W + corners[:, k + 1, None] + pixels)[:, None].expand(n, C, side * side) for k in (0, 2)
    )
    v1 = perturbation.gather(2, window1)
    v1_norm = torch.linalg.vector_norm(v1, dim=2, keepdim=True)
    perturbation.scatter_(2, window1, 0.0)  # so that pixels in both windows are counted once
    v2_square = perturbation.gather(2, window2).square().sum(2, keepdim=True)
    perturbation.scatter_(2, window2, 0.0)
    signed_eta = (
        bump_pattern(side).to(x).flatten(1)[transposed][:, None] * torch.where(positive, 1.0, -1.0).to(x)[:, :, None]
    )
    direction = signed_eta + v1 / v1_norm.clamp(min=TINY)
    direction_norm = torch.linalg.vector_norm(direction, dim=2, keepdim=True)
    direction = torch.where(
        direction_norm > MIN_DIRECTION, direction / direction_norm.clamp(min=MIN_DIRECTION), signed_eta
    )
    perturbation.scatter_(2, window1, direction * (v1_norm.square() + v2_square + unused).sqrt_())
    return project(perturbation.view(n, C, H, W).add_(x), x, eps, "l2")


SQUARE_SAMPLERS: dict[Norm, SquareSampler] = {
    "linf": SquareSampler(1, linf_bounds, _stripe_start, _draw_squares, _square_candidate),
    "l2": SquareSampler(3, lambda x, _: (x,), _tile_start, _draw_windows, _window_candidate),
}
