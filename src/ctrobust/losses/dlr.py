"""The difference of logits ratio of Croce and Hein, untargeted and targeted."""

from torch import Tensor

from ctrobust.errors import InputError
from ctrobust.losses.classes import label_class
from ctrobust.losses.inputs import checked_labels, checked_logits
from ctrobust.losses.margin import margin

# Croce and Hein's constant; it keeps the ratio defined where the leading logits are equal.
TINY = 1e-12


def dlr(logits: Tensor, y: Tensor) -> Tensor:
    """Margin of each example over the spread of its leading logits, invariant to shift and scale of the logits.

    -(z_y - max_{j != y} z_j) / (z_(1) - z_(3) + 1e-12), z_(1) >= z_(2) >= ... the sorted logits

    Args:
        logits: (N, C), C >= 3.
        y: (N,) integer labels.

    Returns:
        (N,).

    Example:
        >>> import torch
        >>> dlr(torch.tensor([[2.0, 1.0, 0.5, -1.0]]), torch.tensor([0]))
        tensor([-0.6667])
    """
    logits = checked_logits(logits, classes=3)
    first, _, third = logits.topk(3, dim=-1).values.unbind(-1)
    return margin(logits, y) / (first - third + TINY)


def dlr_targeted(logits: Tensor, y: Tensor, target: Tensor) -> Tensor:
    """Lead of each example's target class over its label, over the spread of its leading logits.

    -(z_y - z_t) / (z_(1) - (z_(3) + z_(4)) / 2 + 1e-12)

    Args:
        logits: (N, C), C >= 4.
        y: (N,) integer labels.
        target: (N,) integer labels, other than y.

    Returns:
        (N,).

    Example:
        >>> import torch
        >>> dlr_targeted(torch.tensor([[2.0, 1.0, 0.5, -1.0]]), torch.tensor([0]), torch.tensor([3]))
        tensor([-1.3333])
    """
    logits = checked_logits(logits, classes=4)
    y = checked_labels(y, logits)
    target = checked_labels(target, logits, name="target")
    if y.device.type == "cpu" and bool((same := target == y).any()):
        raise InputError(f"target must differ from y; both are {int(y[same][0])} at index {int(same.nonzero()[0])}")
    first, _, third, fourth = logits.topk(4, dim=-1).values.unbind(-1)
    return (label_class(logits, target) - label_class(logits, y)) / (first - (third + fourth) / 2 + TINY)
