"""Clamping to the corners is the projection on the ball and then on the box."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrobust.attacks.projections import linf_bounds

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


def test_by_hand() -> None:
    low, high = linf_bounds(torch.tensor([0.0, 0.25, 1.0]), 0.5)
    assert low.tolist() == [0.0, 0.0, 0.5]
    assert high.tolist() == [0.5, 0.75, 1.0]
