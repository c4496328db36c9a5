"""Label relaxation."""

import pytest
import torch

from ctrobust.errors import InputError
from ctrobust.losses import label_relaxation

P = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
Y = torch.tensor([0])


def test_hand_computed() -> None:
    assert label_relaxation(P, Y).item() == pytest.approx(0.368064, abs=1e-6)


@pytest.mark.parametrize("p_y", [0.91, 0.999, 1.0])
def test_loss_and_gradient_are_zero_where_p_y_is_at_least_one_minus_alpha(p_y: float) -> None:
    logits = torch.tensor([[p_y, 1 - p_y, 1e-30]]).clamp_min(1e-30).log().requires_grad_()
    loss = label_relaxation(logits, Y)
    assert loss.item() == 0
    assert torch.equal(torch.autograd.grad(loss.sum(), logits)[0], torch.zeros(1, 3))


def test_is_the_divergence_to_the_nearest_allowed_distribution() -> None:
    p = torch.tensor([[0.6, 0.3, 0.1]], dtype=torch.float64)
    nearest = torch.tensor([[0.8, 0.15, 0.05]], dtype=torch.float64)
    expected = (nearest * (nearest / p).log()).sum(-1)
    torch.testing.assert_close(label_relaxation(p.log(), Y, alpha=0.2), expected)


def test_is_continuous_at_p_y_equal_to_one_minus_alpha() -> None:
    p_y = torch.tensor([0.9 - 1e-6, 0.9 + 1e-6], dtype=torch.float64)
    loss = label_relaxation(torch.stack([p_y, 1 - p_y], -1).log(), torch.tensor([0, 0]))
    assert loss.tolist() == pytest.approx([0.0, 0.0], abs=1e-10)


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, float("nan")])
def test_impossible_arguments_are_refused(alpha: float) -> None:
    with pytest.raises(InputError, match=f"alpha must lie strictly between 0 and 1; got {alpha}"):
        label_relaxation(P, Y, alpha=alpha)
