"""Cross-entropy."""

import math

import pytest
import torch

from ctrobust.losses import cross_entropy

P = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()


@pytest.mark.parametrize(("y", "expected"), [(0, 0.693147), (1, 1.203973), (3, 2.995732)])
def test_hand_computed(y: int, expected: float) -> None:
    assert cross_entropy(P, torch.tensor([y])).item() == pytest.approx(expected, abs=1e-6)


def test_uniform_is_log_of_the_number_of_classes() -> None:
    assert cross_entropy(torch.zeros(2, 7), torch.tensor([0, 6])).tolist() == pytest.approx([math.log(7)] * 2)


def test_gradient_is_p_minus_onehot() -> None:
    logits = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(cross_entropy(logits, torch.tensor([0, 4, 2])).sum(), logits)
    onehot = torch.eye(5, dtype=torch.float64)[[0, 4, 2]]
    torch.testing.assert_close(gradient, logits.detach().softmax(-1) - onehot)
