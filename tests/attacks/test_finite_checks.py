"""Logits and gradients that are not finite raise an error or are bounded."""

import pytest
import torch
from torch import Tensor

from ctrobust.attacks.finite_checks import (
    bound_infinite,
    check_finite_logits,
    check_gradient,
    check_magnitudes,
    count_if_finite,
    gradient_magnitude,
    input_gradient,
    magnitude,
)
from ctrobust.errors import InputError

INF, NAN = float("inf"), float("nan")
LOGITS = torch.tensor([[1.0, -2.0], [0.5, 0.0]])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_magnitude_is_nan_or_infinite_if_one_value_is(dtype: torch.dtype) -> None:
    values = torch.tensor([[0.5, -3.0], [2.0, 1.0]], dtype=dtype)
    assert magnitude(values).item() == 3.0
    for bad in (INF, -INF):
        assert magnitude(values.where(values != 2.0, bad)).item() == INF
        assert magnitude(torch.tensor([bad, NAN, 1.0], dtype=dtype)).isnan()


@pytest.mark.parametrize("bad", [INF, -INF, NAN])
def test_logits_that_are_not_finite_raise(bad: float) -> None:
    logits, gradient = LOGITS.where(LOGITS != 0.5, bad), torch.ones(2, 3)
    for call in (
        lambda: check_finite_logits(logits),
        lambda: count_if_finite(torch.tensor([True, False]), logits),
        lambda: check_gradient(gradient, logits),
        lambda: check_magnitudes([1.0, gradient_magnitude(gradient, logits).item()]),
    ):
        with pytest.raises(InputError, match="the model's logits are not all finite"):
            call()


def test_finite_values_are_returned_unchanged() -> None:
    gradient = torch.tensor([[1e38, -3e38], [0.0, -0.0]])
    assert check_gradient(gradient, LOGITS) is gradient
    assert check_finite_logits(LOGITS) is LOGITS
    assert count_if_finite(torch.tensor([True, False]), LOGITS) == 1


def test_a_nan_gradient_raises() -> None:
    for other in (1.0, INF):
        with pytest.raises(InputError, match="gradient with respect to the images is NaN"):
            check_gradient(torch.tensor([[other, 1.0], [NAN, 1.0]]), LOGITS)


def by_definition(gradient: Tensor) -> Tensor:
    finite = gradient.isfinite()
    largest = gradient.where(finite, 0).flatten(1).abs().amax(1)
    largest = torch.where(largest > 0, largest, 1.0).view(-1, *[1] * (gradient.dim() - 1))
    return gradient.where(finite, gradient.sign() * largest)


def test_infinite_entries_become_the_largest_finite_magnitude_of_their_example() -> None:
    gradient = torch.tensor([[2.0, -INF, INF, -0.0], [0.0, INF, -0.0, 0.0], [1.0, -5.0, 0.0, 2.0]]).view(3, 1, 2, 2)
    bounded = check_gradient(gradient, LOGITS)
    assert bounded.flatten().tolist() == [2, -2, 2, 0, 0, 1, 0, 0, 1, -5, 0, 2]
    assert torch.equal(bounded.view(torch.int32), by_definition(gradient).view(torch.int32))
    assert torch.equal(bound_infinite(gradient[2:]).view(torch.int32), gradient[2:].view(torch.int32))


def test_an_expanded_gradient_may_be_written_to() -> None:
    gradient = check_gradient(torch.ones(2, 1).expand(2, 3), LOGITS)
    gradient[:, 0] = 5.0
    assert gradient.tolist() == [[5.0, 1.0, 1.0]] * 2


def test_a_value_that_does_not_depend_on_the_images_raises() -> None:
    leaf, other = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    with pytest.raises(InputError, match="cannot be differentiated by the images"):
        input_gradient(other.sum(), leaf)
    assert input_gradient((3 * leaf).sum(), leaf).tolist() == [3.0, 3.0]
