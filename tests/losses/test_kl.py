"""Kullback-Leibler divergence."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrobust.errors import InputError
from ctrobust.losses import kl

P = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
Q = torch.tensor([[0.4, 0.1, 0.2, 0.3]]).log()
ROW = st.lists(st.floats(-50, 50), min_size=5, max_size=5)


def test_hand_computed() -> None:
    assert kl(P, Q).item() == pytest.approx(0.395946, abs=1e-6)


def test_direction_is_clean_to_attacked() -> None:
    assert kl(Q, P).item() == pytest.approx(0.308415, abs=1e-6)


@settings(max_examples=50, deadline=None)
@given(ROW, ROW)
def test_is_not_negative_and_zero_on_equal_outputs(adv: list[float], clean: list[float]) -> None:
    p, q = (torch.tensor([row], dtype=torch.float64) for row in (adv, clean))
    assert kl(p, q).item() >= -1e-12
    assert kl(p, p + 3).item() == pytest.approx(0, abs=1e-12)


def test_gradients_of_both_outputs() -> None:
    z, w = (torch.randn(3, 5, dtype=torch.float64, requires_grad=True) for _ in range(2))
    by_adv, by_clean = torch.autograd.grad(kl(z, w).sum(), (z, w))
    p, q = z.detach().softmax(-1), w.detach().softmax(-1)
    ratio = (q / p).log()
    torch.testing.assert_close(by_adv, p - q)
    torch.testing.assert_close(by_clean, q * (ratio - (q * ratio).sum(-1, keepdim=True)))


def test_impossible_arguments_are_refused() -> None:
    with pytest.raises(InputError, match=r"must have the same shape; got \(1, 4\) and \(2, 4\)"):
        kl(P, Q.expand(2, 4))
    with pytest.raises(InputError, match=r"clean_logits must be a floating tensor of shape \(N, C\)"):
        kl(P, Q[0])
