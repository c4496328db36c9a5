"""Random starts have the documented distribution, are keyed by example, and keep the images' dtype."""

import math

import pytest
import torch

from ctrobust import draws
from ctrobust.attacks.random_starts import ball_start, near_start, normal_start
from ctrobust.specs.attack_fields import Norm

KEYS = torch.arange(50, 450)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ball_start_in_linf(dtype: torch.dtype) -> None:
    x = torch.full((400, 3, 4, 5), 0.5, dtype=dtype)
    start = ball_start(x, KEYS, 9, 0.125, "linf")
    assert (start.dtype, start.shape) == (x.dtype, x.shape)
    # The draws have 24 bits and all factors are powers of two: exact, up to float32's own rounding.
    expected = 0.5 + 0.25 * draws.uniform(KEYS, 9, (3, 4, 5)).double() - 0.125
    assert (start - expected).abs().max() <= (0 if dtype == torch.float64 else 2**-25)
    moved = (start - x).double() / 0.125
    assert moved.abs().max() <= 1
    assert moved.mean().abs() < 4 / (3 * moved.numel()) ** 0.5
    assert (moved.square().mean() - 1 / 3).abs() < 4 * (4 / 45 / moved.numel()) ** 0.5
    assert torch.equal(ball_start(x[:7], KEYS[100:107], 9, 0.125, "linf"), start[100:107])
    assert (x == 0.5).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1,), (2,), (3,), (3, 4, 5)])
def test_ball_start_in_l2(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    x = torch.full((400, *shape), 0.5, dtype=dtype)
    start = ball_start(x, KEYS, 9, 0.125, "l2")
    assert (start.dtype, start.shape) == (x.dtype, x.shape)
    moved, size = (start - x).double().flatten(1) / 0.125, math.prod(shape)
    radius = moved.square().sum(1).sqrt()
    assert radius.max() <= 1 + 1e-5
    # Uniform in the ball: radius^d is uniform in [0, 1], and no direction is preferred.
    uniform = radius.pow(size).sort().values
    assert (uniform - torch.linspace(0, 1, 400, dtype=torch.float64)).abs().max() < 1.63 / 20
    assert (moved.mean(0).abs() < 4 / (size + 2) ** 0.5 / 20).all()
    assert (moved.square().mean(0) * (size + 2) - 1).abs().max() < 0.35
    assert torch.equal(ball_start(x[:7], KEYS[100:107], 9, 0.125, "l2"), start[100:107])
    assert (x == 0.5).all()


def test_directions_and_radii_in_l2_are_drawn_apart() -> None:
    x = torch.full((400, 2), 0.5, dtype=torch.float64)
    moved = ball_start(x, KEYS, 9, 0.125, "l2") - x
    angle, radius = torch.atan2(*moved.unbind(1)), moved.square().sum(1)
    assert torch.corrcoef(torch.stack([angle, radius]))[0, 1].abs() < 4 / 20


def test_a_zero_direction_starts_at_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    # One pixel in 2^24 draws exactly zero, and its image may have no other.
    monkeypatch.setattr(draws, "normal", lambda keys, _, shape: torch.zeros(len(keys), *shape))
    x = torch.full((3, 1), 0.5)
    assert torch.equal(ball_start(x, torch.arange(3), 9, 0.125, "l2"), x)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_the_start_near_the_image_is_in_ball_and_box(norm: Norm) -> None:
    x = torch.rand(400, 60, generator=torch.Generator().manual_seed(0), dtype=torch.float64).round(decimals=1)
    assert torch.equal(near_start(x, KEYS, 9, 1.0, norm), normal_start(x, KEYS, 9, 0.001).clamp(0, 1))
    for eps in (0.0, 1e-4, 1e-3):
        start = near_start(x, KEYS, 9, eps, norm)
        moved = (start - x).abs().amax(1) if norm == "linf" else (start - x).square().sum(1).sqrt()
        assert start.min() >= 0
        assert start.max() <= 1
        assert moved.max() <= eps + 1e-15
        assert eps == 0 or moved.min() > 0.3 * eps


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_normal_start(dtype: torch.dtype) -> None:
    x = torch.full((400, 60), 0.5, dtype=dtype)
    start = normal_start(x, KEYS, 9, 0.001)
    assert (start.dtype, start.shape) == (x.dtype, x.shape)
    torch.testing.assert_close(start, x + 0.001 * draws.normal(KEYS, 9, (60,)).to(dtype), rtol=0, atol=1e-7)
    moved = (start - x).double() / 0.001
    assert moved.mean().abs() < 4 / moved.numel() ** 0.5
    assert (moved.square().mean() - 1).abs() < 4 * (2 / moved.numel()) ** 0.5 + 1e-3
    assert torch.equal(normal_start(x[:7], KEYS[100:107], 9, 0.001), start[100:107])
