"""Label smoothing."""

import pytest
import torch

from ctrobust.errors import InputError
from ctrobust.losses import cross_entropy, label_smoothing

P = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
Y = torch.tensor([0])


def test_hand_computed() -> None:
    assert label_smoothing(P, Y).item() == pytest.approx(0.793582, abs=1e-6)


def test_is_cross_entropy_against_the_smoothed_label() -> None:
    logits, y = torch.randn(6, 5, dtype=torch.float64), torch.tensor([0, 1, 2, 3, 4, 0])
    target = 0.7 * torch.eye(5, dtype=torch.float64)[y] + 0.3 / 5
    torch.testing.assert_close(label_smoothing(logits, y, 0.3), -(target * logits.log_softmax(-1)).sum(-1))


def test_no_smoothing_is_cross_entropy() -> None:
    assert torch.equal(label_smoothing(P, Y, epsilon=0.0), cross_entropy(P, Y))


def test_impossible_arguments_are_refused() -> None:
    with pytest.raises(InputError, match=r"epsilon must be a finite number between 0 and 1; got 1.5"):
        label_smoothing(P, Y, epsilon=1.5)
