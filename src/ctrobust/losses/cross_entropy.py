"""Cross-entropy."""

from torch import Tensor
from torch.nn import functional

from ctrobust.losses.inputs import checked_labels, checked_logits


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy of each example.

    L_CE = -log p_y

    Args:
        logits: (N, C), C >= 2.
        y: (N,) integer labels.

    Returns:
        (N,).

    Example:
        >>> import torch
        >>> p = torch.tensor([[0.5, 0.3, 0.15, 0.05]])
        >>> cross_entropy(p.log(), torch.tensor([0]))
        tensor([0.6931])
    """
    logits = checked_logits(logits)
    return functional.cross_entropy(logits, checked_labels(y, logits), reduction="none")
