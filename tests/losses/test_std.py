"""The standard deviation loss and its logarithm."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ctrobust.losses import log_std, std
from ctrobust.losses.classes import FLAT, wrong_classes

P = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
Q = torch.tensor([[0.4, 0.1, 0.2, 0.3]]).log()
Y = torch.tensor([0])


def gradient(loss: Callable[[Tensor, Tensor], Tensor], logits: Tensor, y: Tensor) -> Tensor:
    logits = logits.clone().requires_grad_()
    return torch.autograd.grad(loss(logits, y).sum(), logits)[0]


def test_hand_computed() -> None:
    assert std(P, Y).item() == pytest.approx(0.125831, abs=1e-6)
    assert std(Q, Y).item() == pytest.approx(0.1, abs=1e-6)
    assert log_std(P, Y).item() == pytest.approx(math.log(0.125831), abs=1e-5)


@pytest.mark.parametrize("C", [3, 10, 100])
def test_is_the_unbiased_deviation_of_the_wrong_probabilities(C: int) -> None:
    generator = torch.Generator().manual_seed(C)
    logits = 3 * torch.randn(50, C, dtype=torch.float64, generator=generator)
    y = torch.randint(0, C, (50,), generator=generator)
    expected = wrong_classes(logits.softmax(-1), y).std(-1, correction=1)
    torch.testing.assert_close(std(logits, y), expected)
    torch.testing.assert_close(log_std(logits, y), expected.log())


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1e4, 1e4, width=32), min_size=3, max_size=12), st.integers(0, 11))
def test_values_are_within_the_bounds(row: list[float], label: int) -> None:
    C = len(row)
    logits, y = torch.tensor([row]), torch.tensor([label % C])
    wrong = 1 - logits.softmax(-1)[0, y].item()
    assert 0 <= std(logits, y).item() <= wrong / math.sqrt(C - 1) + 1e-6
    assert math.log(FLAT) - 2e4 - math.log(C) <= log_std(logits, y).item() <= -math.log(C - 1) / 2 + 1e-6


def test_the_upper_bound_is_reached() -> None:
    assert std(torch.tensor([[0.0, 1e4] + [0.0] * 8]), Y).item() == pytest.approx(1 / 3)


def test_gradient_is_the_papers() -> None:
    # With respect to the wrong probabilities: (p_j - mean) / ((C - 2) STD), and zero for the label's.
    logits = torch.randn(4, 6, dtype=torch.float64)
    y = torch.tensor([0, 5, 2, 3])
    p = logits.softmax(-1)
    mean = wrong_classes(p, y).mean(-1, keepdim=True)
    by_p = ((p - mean) / (4 * std(logits, y).unsqueeze(-1))).scatter(-1, y.unsqueeze(-1), 0.0)
    expected = p * (by_p - (p * by_p).sum(-1, keepdim=True))
    torch.testing.assert_close(gradient(std, logits, y), expected)


@pytest.mark.parametrize("gap", [0.0, 1.0, 20.0, 200.0, -200.0])
@pytest.mark.parametrize("loss", [std, log_std])
def test_equal_wrong_classes_give_gradient_zero(loss: Callable[[Tensor, Tensor], Tensor], gap: float) -> None:
    logits = torch.full((1, 10), 0.1)
    logits[0, 0] += gap
    assert torch.equal(gradient(loss, logits, Y), torch.zeros(1, 10))


def test_value_at_equal_wrong_classes() -> None:
    assert std(torch.zeros(1, 10), Y).item() == 0
    assert log_std(torch.zeros(1, 10), Y).item() == pytest.approx(math.log(FLAT / 10))


def test_log_std_has_a_gradient_where_std_underflows() -> None:
    logits = torch.tensor([[200.0, 0.0, 1.0, 2.0]])
    assert std(logits, Y).item() == 0
    assert torch.equal(gradient(std, logits, Y), torch.zeros(1, 4))
    exact = logits.double()
    assert log_std(logits, Y).item() == pytest.approx(std(exact, Y).log().item(), rel=1e-6)
    expected = gradient(std, exact, Y) / std(exact, Y)
    torch.testing.assert_close(gradient(log_std, logits, Y), expected.float())
    assert gradient(log_std, logits, Y).sign().tolist() == [[-1, -1, -1, 1]]


@pytest.mark.parametrize("loss", [std, log_std])
def test_the_gradient_is_accurate_at_a_confident_wrong_class(
    loss: Callable[[Tensor, Tensor], Tensor],
) -> None:
    # The first wrong class has all but 1e-8 of the probability: computed directly in float32 its gradient is 1 - 1.
    logits = torch.tensor([[0.0, 20.0, 1.0, -1.0]])
    single, exact = gradient(loss, logits, Y), gradient(loss, logits.double(), Y)
    assert single.sign().tolist() == exact.sign().tolist() == [[-1, 1, -1, -1]]
    assert 0 < single.abs().max() < 1e-7
    assert single.sum().item() == pytest.approx(0, abs=1e-13)


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1.0, 5.0])
def test_both_gradients_have_the_same_sign_where_neither_underflows(scale: float) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = scale * torch.randn(200, 10, generator=generator)
    y = torch.randint(0, 10, (200,), generator=generator)
    one, other = gradient(std, logits, y), gradient(log_std, logits, y)
    torch.testing.assert_close(other, one / std(logits, y).unsqueeze(-1), rtol=1e-3, atol=1e-5 / scale)
    clear = one.abs() > 1e-5 * one.abs().amax(-1, keepdim=True)
    assert clear.float().mean() > 0.8
    assert torch.equal(one.sign()[clear], other.sign()[clear])
