"""Projections on the ball and then on the box, directions of steepest ascent, distances: against second formulas."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ctrobust.attacks.projections import distance, l2_norm, linf_bounds, project, steepest
from ctrobust.specs.attack_fields import Norm

PIXEL = st.sampled_from([0.0, 1.0]) | st.floats(0, 1)


@settings(max_examples=100, deadline=None)
@given(pixel=PIXEL, point=st.floats(-2, 3), eps=st.floats(0, 1))
def test_linf(pixel: float, point: float, eps: float) -> None:
    x = torch.tensor([pixel], dtype=torch.float64)
    low, high = linf_bounds(x, eps)
    assert x.item() == pixel
    assert 0 <= low.item() <= pixel <= high.item() <= 1
    projected = torch.tensor([point], dtype=torch.float64).clamp(low, high).item()
    by_turns = min(max(pixel + min(max(point - pixel, -eps), eps), 0.0), 1.0)
    assert abs(projected - by_turns) <= 4e-16
    assert project(torch.tensor([[point]], dtype=torch.float64), x[:, None], eps, "linf").item() == projected


def test_by_hand() -> None:
    low, high = linf_bounds(torch.tensor([0.0, 0.25, 1.0]), 0.5)
    assert low.tolist() == [0.0, 0.0, 0.5]
    assert high.tolist() == [0.5, 0.75, 1.0]
    x = torch.full((3, 2), 0.5, dtype=torch.float64)
    far = torch.tensor([[0.8, 0.9], [0.5, 0.6], [0.5, 0.5]], dtype=torch.float64)
    expected = torch.tensor([[0.62, 0.66], [0.5, 0.6], [0.5, 0.5]], dtype=torch.float64)
    torch.testing.assert_close(project(far.clone(), x, 0.2, "l2"), expected, rtol=0, atol=1e-15)
    # On the ball first, then on the box.
    corner = project(torch.tensor([[4.5, 5.5]], dtype=torch.float64), x[:1], 5.0, "l2")
    assert corner.tolist() == [[1.0, 1.0]]


@settings(max_examples=100, deadline=None)
@given(
    pixels=st.lists(PIXEL, min_size=6, max_size=6),
    points=st.lists(st.floats(-2, 3), min_size=6, max_size=6),
    eps=st.floats(0, 2),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_l2(pixels: list[float], points: list[float], eps: float, dtype: torch.dtype) -> None:
    x, adv = (torch.tensor(values, dtype=dtype).view(1, 1, 2, 3) for values in (pixels, points))
    before = x.clone()
    found = project(adv.clone(), x, eps, "l2")
    assert torch.equal(x, before)
    assert found.min() >= 0
    assert found.max() <= 1
    rounding = 8 * torch.finfo(dtype).eps
    assert math.dist(found.flatten().tolist(), x.flatten().tolist()) <= eps + rounding
    offset = [b - a for a, b in zip(x.flatten().tolist(), adv.flatten().tolist(), strict=True)]
    share = min(1.0, eps / max(math.hypot(*offset), 1e-300))
    expected = [min(max(a + share * d, 0.0), 1.0) for a, d in zip(x.flatten().tolist(), offset, strict=True)]
    assert found.flatten().tolist() == pytest.approx(expected, abs=rounding * 4)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_projection_is_in_place_and_leaves_what_is_inside(norm: Norm) -> None:
    x = torch.full((2, 5), 0.5, dtype=torch.float64)
    adv = x + 0.01
    found = project(adv, x, 0.1, norm)
    assert found is adv
    torch.testing.assert_close(found, x + 0.01, rtol=0, atol=1e-16)


def rows(*values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_steepest_by_hand() -> None:
    gradient = rows([3.0, -4.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, -1e-9])
    assert steepest(gradient.clone(), "linf").tolist() == [[1, -1, 0], [0, 0, 0], [0, 0, -1]]
    expected = rows([0.6, -0.8, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, -1.0])
    torch.testing.assert_close(steepest(gradient.clone(), "l2"), expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("scale", [1e-44, 1e-40, 1e-30, 1e-20, 1.0, 1e20, 1e30])
def test_steepest_is_of_unit_length_at_any_scale(scale: float) -> None:
    # The squares of most of these are zero or infinite in float32.
    gradient = torch.tensor([[[3.0, -4.0], [0.0, 0.0]]]) * scale
    expected = torch.tensor([[[0.6, -0.8], [0.0, 0.0]]])
    torch.testing.assert_close(steepest(gradient, "l2"), expected, rtol=0, atol=0.1 if scale < 1e-43 else 1e-6)


def test_norms_and_distances() -> None:
    x = torch.zeros(2, 1, 2, 2)
    adv = torch.tensor([[3.0, 0.0, -4.0, 0.0], [0.0, 0.0, 0.0, 2.0]]).view(2, 1, 2, 2)
    assert l2_norm(adv).shape == (2, 1, 1, 1)
    assert l2_norm(adv).flatten().tolist() == [5.0, 2.0]
    assert distance(adv, x, "l2").tolist() == [5.0, 2.0]
    assert distance(adv, x, "linf").tolist() == [4.0, 2.0]
    last = adv.expand(2, 3, 2, 2).contiguous(memory_format=torch.channels_last)
    assert distance(last, torch.zeros_like(last), "linf").tolist() == [4.0, 2.0]
