"""What Square tries: where it starts and how it changes an image, in each norm. Every draw is keyed by example."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ctrobust import draws
from ctrobust.attacks.projections import TINY, Norm, l2_norm, linf_bounds, project

CANCELLED = 1e-4
"""Where old and new direction leave less than this of each other, the new one is taken alone."""


@dataclass(frozen=True)
class Moves:
    """How Square moves in one norm. Tensors of a frame have a row for each example, those of a plan (queries, n, ...).

    Attributes:
        least: the smallest side of a square.
        frame: (x, eps) -> what stays the same during the search.
        start: (frame, keys, stream, eps) -> the first images (n, C, H, W).
        plan: (keys, stream, sides, (C, H, W)) -> the draws for queries of these sides.
        candidate: (frame, adv, the plan's row, side, eps) -> the images to try, (n, C, H, W).
    """

    least: int
    frame: Callable[[Tensor, float], tuple[Tensor, ...]]
    start: Callable[[Sequence[Tensor], Tensor, int, float], Tensor]
    plan: Callable[[Tensor, int, Sequence[int], torch.Size], tuple[Tensor, ...]]
    candidate: Callable[[Sequence[Tensor], Tensor, Sequence[Tensor], int, float], Tensor]


def places(keys: Tensor, stream: int, sides: Sequence[int], limits: Sequence[int]) -> Tensor:
    """Uniform integers in 0..limit-side: for every query, example and limit, (queries, n, limits) int64.

    Example:
        >>> places(torch.tensor([5, 6]), draws.stream(0), [3], (4, 8))
        tensor([[[1, 4],
                 [0, 0]]])
    """
    count = len(sides) * len(limits)
    halves = draws.words(keys, stream, -(-count // 2)).view(torch.int32)[:, :count].to(torch.int64) & 0xFFFFFFFF
    room = torch.tensor(limits, device=keys.device) - torch.tensor(sides, device=keys.device)[:, None] + 1
    return ((halves.view(len(keys), *room.shape) * room) >> 32).transpose(0, 1).contiguous()


def coins(keys: Tensor, stream: int, queries: int, count: int) -> Tensor:
    """Fair coins, (queries, n, count) bool."""
    return draws.keep(keys, stream, queries * count, 0.5).view(len(keys), queries, count).transpose(0, 1).contiguous()


def _stripes(frame: Sequence[Tensor], keys: Tensor, stream: int, eps: float) -> Tensor:  # noqa: ARG001 - in the frame
    """The image with eps added to or taken from each column of each channel."""
    (low, high), (_, C, _, W) = frame, frame[0].shape
    return torch.where(draws.keep(keys, stream, C * W, 0.5).view(-1, C, 1, W), high, low)


def _plan_squares(keys: Tensor, stream: int, sides: Sequence[int], shape: torch.Size) -> tuple[Tensor, ...]:
    """Which rows (queries, n, H) and columns (queries, n, W) the squares have, and the channels' signs."""
    C, H, W = shape
    first = places(keys, draws.stream(stream, "places"), sides, (H, W))
    end = first + torch.tensor(sides, device=keys.device)[:, None, None]
    lines = [
        (at >= first[..., axis, None]) & (at < end[..., axis, None])
        for axis, at in enumerate(torch.arange(size, device=keys.device) for size in (H, W))
    ]
    return *lines, coins(keys, draws.stream(stream, "signs"), len(sides), C)


def _square(frame: Sequence[Tensor], adv: Tensor, move: Sequence[Tensor], side: int, eps: float) -> Tensor:  # noqa: ARG001
    """2 eps added to or taken from each channel of a square, clipped to ball and box.

    Every pixel is at one end of its range from the start, so this puts it at the one or at the other.
    """
    (low, high), (rows, columns, up) = frame, move
    inside = rows[:, None, :, None] & columns[:, None, None, :]
    return torch.where(inside, torch.where(up[:, :, None, None], high, low), adv)


@functools.lru_cache(maxsize=64)
def bumps(side: int) -> Tensor:
    """The paper's eta of unit norm, two bumps of opposite signs, one beside the other and one below: (2, side, side).

    eta_rc = sum_{k=0}^{M} 1 / (n + 1 - k)^2,  M = n - max(|r - centre|, |c - centre|),  n half of the longer side

    Example:
        >>> bumps(2)[1]
        tensor([[ 0.1387,  0.6934],
                [-0.1387, -0.6934]], dtype=torch.float64)
    """
    n, half = side // 2, side // 2
    heights = torch.arange(1, n + 2, dtype=torch.float64).pow(-2).flip(0).cumsum(0).flip(0)
    away = (torch.arange(side) - n).abs()

    def bump(width: int) -> Tensor:
        return heights[torch.maximum(away[:, None], (torch.arange(width) - width // 2).abs())]

    eta = torch.cat([bump(half), -bump(side - half)], 1)
    eta /= eta.norm()
    return torch.stack([eta, eta.T])


def _tiles(frame: Sequence[Tensor], keys: Tensor, stream: int, eps: float) -> Tensor:
    """The image with bumps of length eps together, on a grid of five squares across the shorter side."""
    (x,), (n, C, H, W) = frame, frame[0].shape
    side = max(min(H, W) // 5, 1)
    down, across = H // side, W // side
    signs = draws.keep(keys, draws.stream(stream, "signs"), C * down * across, 0.5).view(n, C, down, across, 1, 1)
    turned = draws.keep(keys, draws.stream(stream, "turns"), down * across, 0.5).view(n, 1, down, across)
    tiles = bumps(side).to(x)[turned.to(torch.int64)] * torch.where(signs, 1.0, -1.0).to(x)
    offset, top, left = torch.zeros_like(x), (H - down * side) // 2, (W - across * side) // 2
    offset[:, :, top : top + down * side, left : left + across * side] = tiles.transpose(3, 4).reshape(
        n, C, down * side, across * side
    )
    return project(offset.mul_(eps / l2_norm(offset)).add_(x), x, eps, "l2")


def _plan_windows(keys: Tensor, stream: int, sides: Sequence[int], shape: torch.Size) -> tuple[Tensor, ...]:
    """Corners of both windows as rows and columns (queries, n, 4), which way the bumps lie, and the channels' signs."""
    C, H, W = shape
    tossed = coins(keys, draws.stream(stream, "signs"), len(sides), C + 1)
    first = places(keys, draws.stream(stream, "places"), sides, (H, W, H, W))
    return first, tossed[..., 0].to(torch.int64), tossed[..., 1:]


def _windows(frame: Sequence[Tensor], adv: Tensor, move: Sequence[Tensor], side: int, eps: float) -> Tensor:
    """In each channel, the offset of two windows is spent in the first: bumps are added to its direction there.

    v1 <- (s eta + v1/|v1|) / |s eta + v1/|v1|| * sqrt(|v in both|^2 + (eps^2 - |v|^2) / C);  v2 <- 0
    """
    (x,), (first, turned, up) = frame, move
    n, C, H, W = x.shape
    offset = (adv - x).reshape(n, C, H * W)
    spare = (eps**2 - offset.square().sum((1, 2), keepdim=True)).clamp_(min=0.0) / C
    at = torch.arange(side, device=x.device)
    pixels = (at[:, None] * W + at).flatten()
    one, other = (
        (first[:, k, None] * W + first[:, k + 1, None] + pixels)[:, None].expand(n, C, side * side) for k in (0, 2)
    )
    old = offset.gather(2, one)
    length = torch.linalg.vector_norm(old, dim=2, keepdim=True)
    offset.scatter_(2, one, 0.0)  # so that what the windows share is counted once
    taken = offset.gather(2, other).square().sum(2, keepdim=True)
    offset.scatter_(2, other, 0.0)
    pushed = bumps(side).to(x).flatten(1)[turned][:, None] * torch.where(up, 1.0, -1.0).to(x)[:, :, None]
    mixed = pushed + old / length.clamp(min=TINY)
    size = torch.linalg.vector_norm(mixed, dim=2, keepdim=True)
    mixed = torch.where(size > CANCELLED, mixed / size.clamp(min=CANCELLED), pushed)
    offset.scatter_(2, one, mixed * (length.square() + taken + spare).sqrt_())
    return project(offset.view(n, C, H, W).add_(x), x, eps, "l2")


MOVES: dict[Norm, Moves] = {
    "linf": Moves(1, linf_bounds, _stripes, _plan_squares, _square),
    "l2": Moves(3, lambda x, _: (x,), _tiles, _plan_windows, _windows),
}
