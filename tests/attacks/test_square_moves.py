"""The starts and candidates of Square against the formulas of its paper, written out pixel by pixel."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from ctrobust import draws
from ctrobust.attacks.square_moves import SQUARE_SAMPLERS, bump_pattern, random_bits, random_corners

FLOAT = torch.float64
KEYS = torch.arange(400) * 3 - 50


def eta(height: int, width: int, longer: int) -> list[list[float]]:
    """The paper's equation for one rectangle, rows and columns counted from 1."""
    n = longer // 2

    def value(r: int, c: int) -> float:
        M = n - max(abs(r - height // 2 - 1), abs(c - width // 2 - 1))
        return math.fsum(1 / (n + 1 - k) ** 2 for k in range(M + 1))

    return [[value(r, c) for c in range(1, width + 1)] for r in range(1, height + 1)]


@pytest.mark.parametrize("side", [1, 2, 3, 4, 5, 10, 29])
def test_bump_pattern_is_the_papers_eta(side: int) -> None:
    half = side // 2
    pairs = zip(eta(side, half, side), eta(side, side - half, side), strict=True)
    expected = torch.tensor([one + [-value for value in other] for one, other in pairs], dtype=FLOAT)
    expected /= expected.norm()
    torch.testing.assert_close(bump_pattern(side), torch.stack([expected, expected.T]), rtol=0, atol=1e-14)


def test_corners_are_uniform_and_include_the_last_position() -> None:
    sides, limits = [1, 3, 6, 2], (6, 9)
    found = random_corners(KEYS, draws.stream(1), sides, limits)
    assert found.shape == (4, 400, 2)
    for (k, side), (axis, limit) in itertools.product(enumerate(sides), enumerate(limits)):
        counts = found[k, :, axis].bincount(minlength=limit - side + 1)
        assert len(counts) == limit - side + 1
        assert (counts - 400 / len(counts)).abs().max() < 5 * (400 / len(counts)) ** 0.5
    assert torch.equal(random_corners(KEYS[5:9], draws.stream(1), sides, limits), found[:, 5:9])
    # Fewer queries draw the same corners as the first of more queries.
    assert torch.equal(random_corners(KEYS, draws.stream(1), sides[:3], limits), found[:3])


def test_bits_are_fair() -> None:
    found = random_bits(KEYS, draws.stream(1), 5, 3)
    assert found.shape == (5, 400, 3)
    assert (found.double().mean((0, 1)) - 0.5).abs().max() < 0.05
    assert torch.equal(random_bits(KEYS[5:9], draws.stream(1), 2, 3), found[:2, 5:9])
    assert not torch.equal(found[0], found[1])


def test_start_in_linf_is_vertical_stripes() -> None:
    x = torch.rand(400, 3, 4, 5, generator=torch.Generator().manual_seed(0), dtype=FLOAT)
    sampler = SQUARE_SAMPLERS["linf"]
    start = sampler.start(sampler.constants(x, 0.1), KEYS, 7, 0.1)
    inner = (x > 0.1) & (x < 0.9)
    signs = ((start - x) / 0.1)[inner]
    torch.testing.assert_close(signs.abs(), torch.ones_like(signs), rtol=0, atol=1e-12)
    assert abs(signs.mean()) < 0.05
    assert 0 <= start.min() <= start.max() <= 1
    up = (start > x) | (x == 1)
    assert torch.equal(up, up[:, :, :1].expand_as(up))
    assert len({tuple(row) for row in up[:, :, 0].flatten(1).tolist()}) > 390


def test_start_in_l2_is_a_grid_of_bump_patterns() -> None:
    x = torch.full((4, 2, 12, 16), 0.5, dtype=FLOAT)
    sampler = SQUARE_SAMPLERS["l2"]
    offset = sampler.start((x,), KEYS[:4], 7, 0.3) - x
    torch.testing.assert_close(offset.flatten(1).norm(dim=1), torch.full((4,), 0.3, dtype=FLOAT), rtol=1e-12, atol=0)
    # Six tiles down and eight across, of two pixels a side, with the bumps side by side or one below the other.
    scale = 0.3 / (2 * 6 * 8) ** 0.5
    kinds = [sign * eta for eta in bump_pattern(2) for sign in (1, -1)]
    found: list[int] = []
    for i, c, r, k in itertools.product(range(4), range(2), range(6), range(8)):
        tile = offset[i, c, 2 * r : 2 * r + 2, 2 * k : 2 * k + 2] / scale
        matching = [kind for kind, expected in enumerate(kinds) if (tile - expected).abs().max() < 1e-9]
        assert len(matching) == 1
        found += matching
    counts = torch.tensor(found).bincount(minlength=4)
    assert (counts - 96).abs().max() < 45
    # Each channel has its own signs; a tile is transposed in all channels or in none.
    transposed = torch.tensor(found).view(4, 2, 48) // 2
    assert torch.equal(transposed[:, 0], transposed[:, 1])
    assert not torch.equal(torch.tensor(found).view(4, 2, 48)[:, 0], torch.tensor(found).view(4, 2, 48)[:, 1])


def test_tiles_that_do_not_fill_the_image_are_centred() -> None:
    x = torch.full((1, 1, 13, 19), 0.5, dtype=FLOAT)
    moved = (SQUARE_SAMPLERS["l2"].start((x,), KEYS[:1], 7, 0.3) != x)[0, 0]
    assert moved.any(1).nonzero()[:, 0].tolist() == list(range(12))
    assert moved.any(0).nonzero()[:, 0].tolist() == list(range(18))


def one_window(
    x: Tensor, adv: Tensor, first: list[int], transposed: int, positive: list[bool], side: int, eps: float
) -> Tensor:
    """The paper's algorithm 3 on one image (C, H, W)."""
    offset, C = adv - x, len(x)
    rows, columns = (range(first[k], first[k] + side) for k in (0, 1))
    one = set(itertools.product(rows, columns))
    other = set(itertools.product(range(first[2], first[2] + side), range(first[3], first[3] + side)))
    unused = eps**2 - float(offset.square().sum())
    new = offset.clone()
    for c in range(C):
        old = torch.stack([offset[c, r, k] for r, k in sorted(one)]).view(side, side)
        direction = (1 if positive[c] else -1) * bump_pattern(side)[transposed]
        if old.norm() > 0:
            direction = direction + old / old.norm()
        both = sum(float(offset[c, r, k]) ** 2 for r, k in one | other)
        for r, k in other:
            new[c, r, k] = 0
        length = (both + unused / C) ** 0.5
        for i, (r, k) in enumerate(sorted(one)):
            new[c, r, k] = direction.flatten()[i] / direction.norm() * length
    return (x + new).clamp(0, 1)


@pytest.mark.parametrize(("C", "H", "W", "side"), [(1, 6, 6, 3), (3, 5, 8, 4), (2, 4, 4, 4), (3, 3, 2, 2)])
def test_candidate_in_l2_is_algorithm_3(C: int, H: int, W: int, side: int) -> None:
    generator = torch.Generator().manual_seed(0)
    n, eps, sampler = 30, 0.4, SQUARE_SAMPLERS["l2"]
    x = torch.rand(n, C, H, W, generator=generator, dtype=FLOAT)
    noise = torch.randn(n, C, H, W, generator=generator, dtype=FLOAT)
    adv = (x + noise * (eps / noise.flatten(1).norm(dim=1).view(-1, 1, 1, 1))).clamp(0, 1)
    adv[0] = x[0]
    before = adv.clone()
    first, transposed, positive = (drawn[0] for drawn in sampler.draw(KEYS[:n], 3, [side], x.shape[1:]))
    found = sampler.candidate((x,), adv, (first, transposed, positive), side, eps)
    assert torch.equal(adv, before)
    overlapping = 0
    for i in range(n):
        expected = one_window(x[i], adv[i], first[i].tolist(), int(transposed[i]), positive[i].tolist(), side, eps)
        torch.testing.assert_close(found[i], expected, rtol=0, atol=1e-12)
        r1, c1, r2, c2 = first[i].tolist()
        overlapping += abs(r1 - r2) < side and abs(c1 - c2) < side
    assert overlapping > 0


def test_candidate_in_l2_uses_the_whole_budget_if_the_box_allows_it() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.full((50, 3, 8, 8), 0.5, dtype=FLOAT)
    noise = torch.randn(50, 3, 8, 8, generator=generator, dtype=FLOAT)
    adv = x + 0.1 * noise / noise.flatten(1).norm(dim=1).view(-1, 1, 1, 1)  # a third of the budget is used
    drawn = [tensor[0] for tensor in SQUARE_SAMPLERS["l2"].draw(KEYS[:50], 3, [3], x.shape[1:])]
    found = SQUARE_SAMPLERS["l2"].candidate((x,), adv, drawn, 3, 0.3)
    lengths = (found - x).flatten(1).norm(dim=1)
    torch.testing.assert_close(lengths, torch.full_like(lengths, 0.3), rtol=1e-12, atol=0)
    changed = (found != adv).any(1).flatten(1).sum(1)
    assert changed.max() <= 18
    assert changed.min() >= 9


def test_new_direction_replaces_an_opposite_old_one() -> None:
    x = torch.full((1, 1, 3, 3), 0.5, dtype=FLOAT)
    adv = x + 0.2 * bump_pattern(3)[0]
    drawn = (torch.zeros(1, 4, dtype=torch.int64), torch.tensor([0]), torch.tensor([[False]]))
    found = SQUARE_SAMPLERS["l2"].candidate((x,), adv, drawn, 3, 0.2)
    torch.testing.assert_close(found, x - 0.2 * bump_pattern(3)[0], rtol=0, atol=1e-12)
