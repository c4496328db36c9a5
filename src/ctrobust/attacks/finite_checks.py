"""Checks that logits and gradients are finite, each with one read: a read makes the host wait for a GPU."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ctrobust.errors import InputError

LOGITS_NOT_FINITE = "the model's logits are not all finite: NaN or infinity found"
GRADIENT_IS_NAN = "the gradient with respect to the images is NaN: model or loss has none there"
NO_GRADIENT = (
    "the model's logits cannot be differentiated by the images: does it detach them, or is it under no_grad? A model "
    "without gradients can be attacked by square or noise"
)


def magnitude(values: Tensor) -> Tensor:
    """Return the largest absolute value, a tensor without dimensions: NaN if one is NaN, else infinity if one is.

    Example:
        >>> magnitude(torch.tensor([1.0, -3.0])), magnitude(torch.tensor([-torch.inf, torch.nan]))
        (tensor(3.), tensor(nan))
    """
    low, high = values.detach().aminmax()
    return torch.maximum(high, -low)


def check_finite_logits(logits: Tensor) -> Tensor:
    if not math.isfinite(magnitude(logits).item()):
        raise InputError(LOGITS_NOT_FINITE)
    return logits


def count_if_finite(mask: Tensor, logits: Tensor) -> int:
    """Count the true entries of a mask; logits that are not finite raise an error, found with the same read."""
    count = int(torch.where(magnitude(logits) < torch.inf, mask.sum(), -1))
    if count == -1:
        raise InputError(LOGITS_NOT_FINITE)
    return count


def input_gradient(value: Tensor, leaf: Tensor, *, retain_graph: bool = False) -> Tensor:
    """Differentiate by the leaf; a value that does not depend on it raises an error."""
    (gradient,) = torch.autograd.grad(value, leaf, retain_graph=retain_graph, allow_unused=True)
    if gradient is None:
        raise InputError(NO_GRADIENT)
    return gradient


def check_gradient(gradient: Tensor, logits: Tensor) -> Tensor:
    """Return a gradient that is finite and may be written to; NaN, and logits that are not finite, raise an error."""
    if 0 in gradient.stride():  # an expanded tensor, as a sum's gradient is
        gradient = gradient.contiguous()
    size = gradient_magnitude(gradient, logits).item()
    check_magnitudes([size])
    return gradient if math.isfinite(size) else bound_infinite(gradient)


def gradient_magnitude(gradient: Tensor, logits: Tensor) -> Tensor:
    """Return the gradient's magnitude, or -1 if the logits are not finite, for `check_magnitudes` to read."""
    return torch.where(magnitude(logits) < torch.inf, magnitude(gradient), -1.0)


def check_magnitudes(magnitudes: Sequence[float]) -> None:
    if -1.0 in magnitudes:
        raise InputError(LOGITS_NOT_FINITE)
    if any(math.isnan(value) for value in magnitudes):
        raise InputError(GRADIENT_IS_NAN)


def bound_infinite(gradient: Tensor) -> Tensor:
    """Replace infinite entries by the largest finite magnitude of the example's gradient, or by 1, with their sign.

    Example:
        >>> bound_infinite(torch.tensor([[3.0, -torch.inf], [torch.inf, 0.0]]))
        tensor([[ 3., -3.],
                [ 1.,  0.]])
    """
    largest = gradient.abs().nan_to_num_(nan=0.0, posinf=0.0).flatten(1).amax(1)
    largest = torch.where(largest > 0, largest, 1.0).view(-1, *[1] * (gradient.dim() - 1))
    return gradient.clamp(-largest, largest)
