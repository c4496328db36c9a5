"""The focal loss."""

import pytest
import torch

from ctrobust.errors import InputError
from ctrobust.losses import cross_entropy, focal

P = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
Y = torch.tensor([0])


def test_hand_computed() -> None:
    assert focal(P, Y).item() == pytest.approx(0.173287, abs=1e-6)


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0, 5.0])
def test_is_the_power_times_cross_entropy(gamma: float) -> None:
    logits, y = torch.randn(6, 5, dtype=torch.float64), torch.tensor([0, 1, 2, 3, 4, 0])
    p_y = logits.softmax(-1)[torch.arange(6), y]
    torch.testing.assert_close(focal(logits, y, gamma), -((1 - p_y) ** gamma) * p_y.log())


def test_gamma_zero_is_cross_entropy() -> None:
    logits, y = torch.randn(6, 5), torch.tensor([0, 1, 2, 3, 4, 0])
    assert torch.equal(focal(logits, y, gamma=0.0), cross_entropy(logits, y))


def test_a_gamma_below_one_has_a_finite_gradient_where_p_y_is_one() -> None:
    logits = torch.tensor([[1e4, 0.0, 0.0]], requires_grad=True)
    (gradient,) = torch.autograd.grad(focal(logits, Y, gamma=0.5).sum(), logits)
    assert gradient.tolist() == [[0.0, 0.0, 0.0]]


def test_impossible_arguments_are_refused() -> None:
    with pytest.raises(InputError, match="gamma must be a finite number of at least 0; got -2"):
        focal(P, Y, gamma=-2)
