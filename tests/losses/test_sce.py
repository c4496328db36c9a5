"""STD loss based cross-entropy."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrobust.errors import InputError
from ctrobust.losses import cross_entropy, sce, std

P = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
Y = torch.tensor([0])
ROWS = st.lists(st.lists(st.floats(-1e4, 1e4, width=32), min_size=5, max_size=5), min_size=1, max_size=4)


def test_hand_computed() -> None:
    assert sce(P, Y).item() == pytest.approx(0.891498, abs=1e-6)
    assert sce(P, Y, gamma=5).item() == pytest.approx(math.log(2) * math.exp(5 * 0.1258306), abs=1e-5)


@settings(max_examples=50, deadline=None)
@given(ROWS)
def test_gamma_zero_is_cross_entropy_bit_for_bit(rows: list[list[float]]) -> None:
    logits = torch.tensor(rows, requires_grad=True)
    y = torch.arange(len(rows))
    one, other = sce(logits, y, gamma=0.0), cross_entropy(logits, y)
    assert torch.equal(one, other)
    assert torch.equal(*(torch.autograd.grad(loss.sum(), logits)[0] for loss in (one, other)))


def test_gamma_has_no_effect_where_all_wrong_classes_are_equal() -> None:
    logits = torch.zeros(2, 10, requires_grad=True)
    y = torch.tensor([0, 9])
    one, other = (torch.autograd.grad(loss(logits, y).sum(), logits)[0] for loss in (cross_entropy, sce))
    assert torch.equal(torch.autograd.grad(sce(logits, y, gamma=0).sum(), logits)[0], one)
    # STD and its gradient are zero, so no gamma changes the gradient.
    torch.testing.assert_close(one, other)


@settings(max_examples=50, deadline=None)
@given(ROWS, st.floats(0, 5))
def test_factor_is_bounded(rows: list[list[float]], gamma: float) -> None:
    logits, y = torch.tensor(rows, dtype=torch.float64), torch.arange(len(rows))
    ce, value = cross_entropy(logits, y), sce(logits, y, gamma)
    assert bool((ce <= value).all())
    assert bool((value <= ce * math.exp(gamma / 2) * (1 + 1e-12)).all())


def test_nothing_is_detached() -> None:
    logits = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    y = torch.tensor([0, 4, 2])
    losses = (std, cross_entropy, sce)
    by_std, by_ce, by_sce = (torch.autograd.grad(loss(logits, y).sum(), logits)[0] for loss in losses)
    factor = (2 * std(logits, y)).exp().unsqueeze(-1)
    expected = factor * (by_ce + 2 * by_std * cross_entropy(logits, y).unsqueeze(-1))
    torch.testing.assert_close(by_sce, expected.detach())


def test_impossible_arguments_are_refused() -> None:
    with pytest.raises(InputError, match="gamma must be a finite number of at least 0; got -1"):
        sce(P, Y, gamma=-1)
    with pytest.raises(InputError, match="needs at least 3 classes; got 2"):
        sce(torch.zeros(1, 2), Y)
