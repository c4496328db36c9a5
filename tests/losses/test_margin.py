"""The margin."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrobust.losses import margin

LOGITS = torch.tensor([[2.0, 1.0, 0.5, -1.0]])


@pytest.mark.parametrize(("y", "expected"), [(0, -1.0), (1, 1.0), (3, 3.0)])
def test_hand_computed(y: int, expected: float) -> None:
    assert margin(LOGITS, torch.tensor([y])).item() == expected


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1e4, 1e4, width=32), min_size=2, max_size=12, unique=True), st.integers(0, 11))
def test_is_positive_exactly_where_misclassified(row: list[float], label: int) -> None:
    logits, y = torch.tensor([row]), torch.tensor([label % len(row)])
    assert (margin(logits, y) > 0).item() == (logits.argmax(-1) != y).item()


def test_tied_wrong_classes_share_the_gradient() -> None:
    logits = torch.tensor([[0.0, 1.0, 1.0]], requires_grad=True)
    (gradient,) = torch.autograd.grad(margin(logits, torch.tensor([0])).sum(), logits)
    assert gradient.tolist() == [[-1.0, 0.5, 0.5]]
