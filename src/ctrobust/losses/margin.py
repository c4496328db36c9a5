"""The margin of Carlini and Wagner."""

from torch import Tensor

from ctrobust.losses.classes import label_class, wrong_classes
from ctrobust.losses.inputs import checked_labels, checked_logits


def margin(logits: Tensor, y: Tensor) -> Tensor:
    """Lead of the best wrong class over the label, positive where the example is misclassified.

    max_{j != y} z_j - z_y

    Tied wrong classes share the gradient.

    Args:
        logits: (N, C), C >= 2.
        y: (N,) integer labels.

    Returns:
        (N,).

    Example:
        >>> import torch
        >>> margin(torch.tensor([[2.0, 1.0, 0.5, -1.0]]), torch.tensor([0]))
        tensor([-1.])
    """
    logits = checked_logits(logits)
    y = checked_labels(y, logits)
    return wrong_classes(logits, y).amax(-1) - label_class(logits, y)
