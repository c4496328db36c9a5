"""Starts: each example's own, of the promised distribution and in the images' precision."""

import pytest
import torch

from ctrobust import draws
from ctrobust.attacks.randomness import linf_start, normal_start

KEYS = torch.arange(50, 450)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_linf_start(dtype: torch.dtype) -> None:
    x = torch.full((400, 3, 4, 5), 0.5, dtype=dtype)
    start = linf_start(x, KEYS, 9, 0.125)
    assert (start.dtype, start.shape) == (x.dtype, x.shape)
    # The draws have 24 bits and all factors are powers of two: exact, up to float32's own rounding.
    expected = 0.5 + 0.25 * draws.uniform(KEYS, 9, (3, 4, 5)).double() - 0.125
    assert (start - expected).abs().max() <= (0 if dtype == torch.float64 else 2**-25)
    moved = (start - x).double() / 0.125
    assert moved.abs().max() <= 1
    assert moved.mean().abs() < 4 / (3 * moved.numel()) ** 0.5
    assert (moved.square().mean() - 1 / 3).abs() < 4 * (4 / 45 / moved.numel()) ** 0.5
    assert torch.equal(linf_start(x[:7], KEYS[100:107], 9, 0.125), start[100:107])
    assert (x == 0.5).all()


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
