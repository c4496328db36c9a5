"""Checks of the tensors that losses take, and the precision of their computation."""

import torch
from torch import Tensor

from ctrobust.errors import InputError


def checked_logits(logits: Tensor, axes: str = "NC", classes: int = 2, name: str = "logits") -> Tensor:
    """Return the logits in the precision of the computation; raise if they do not fit.

    float64 stays float64; every other floating type becomes float32.

    Args:
        logits: A floating tensor with one dimension per letter of `axes`, the last one the classes.
        axes: Names of the dimensions, for the message.
        classes: Smallest number of classes for which the loss is defined.
        name: Name of the argument, for the message.

    Example:
        >>> checked_logits(torch.zeros(2, 3, dtype=torch.bfloat16)).dtype
        torch.float32
    """
    if not logits.is_floating_point() or logits.dim() != len(axes):
        raise InputError(
            f"{name} must be a floating tensor of shape ({', '.join(axes)}); "
            f"got {logits.dtype} of shape {tuple(logits.shape)}"
        )
    if logits.shape[-1] < classes:
        raise InputError(
            f"this loss needs at least {classes} classes; got {logits.shape[-1]}, in {name} of shape "
            f"{tuple(logits.shape)}"
        )
    return logits if logits.dtype == torch.float64 else logits.float()


def checked_labels(y: Tensor, logits: Tensor, name: str = "y") -> Tensor:
    """Return the labels as int64; raise if they do not fit.

    Their range is checked only on the CPU: on another device the check would synchronize the host at every step.

    Args:
        y: (N,) integers in 0..C-1, on the device of the logits.
        logits: (..., N, C), already checked.
        name: Name of the argument, for the message.

    Example:
        >>> checked_labels(torch.tensor([2, 0], dtype=torch.int32), torch.zeros(2, 3))
        tensor([2, 0])
    """
    N, C = logits.shape[-2:]
    if y.is_floating_point() or y.is_complex() or y.dtype == torch.bool or y.shape != (N,):
        raise InputError(
            f"{name} must be an integer tensor of shape ({N},), one label per row of the logits; "
            f"got {y.dtype} of shape {tuple(y.shape)}"
        )
    if y.device != logits.device:
        raise InputError(f"{name} must be on the device of the logits, {logits.device}; got {y.device}")
    if y.device.type == "cpu" and N > 0:
        low, high = (int(bound) for bound in y.aminmax())
        if low < 0 or high >= C:
            raise InputError(f"{name} must lie in 0..{C - 1} for {C} classes; got {low if low < 0 else high}")
    return y.long()
