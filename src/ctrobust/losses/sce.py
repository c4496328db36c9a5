"""Cross-entropy weighted by the standard deviation loss."""

from torch import Tensor

from ctrobust.argument_checks import check_number
from ctrobust.losses.cross_entropy import cross_entropy
from ctrobust.losses.std import std


def sce(logits: Tensor, y: Tensor, gamma: float = 2.0) -> Tensor:
    """STD loss based cross-entropy of each example.

    L_SCE = exp(gamma L_STD) L_CE

    Nothing is detached. gamma=0 is `cross_entropy`, bit for bit.

    Args:
        logits: (N, C), C >= 3 (2 with gamma=0).
        y: (N,) integer labels.
        gamma: Weight of the deviation, >= 0. The factor lies in [1, exp(gamma / sqrt(C-1))].

    Returns:
        (N,).

    Example:
        >>> import torch
        >>> p = torch.tensor([[0.5, 0.3, 0.15, 0.05]])
        >>> sce(p.log(), torch.tensor([0]), gamma=2.0)
        tensor([0.8915])
    """
    check_number(gamma, "gamma")
    ce = cross_entropy(logits, y)
    if gamma == 0:
        return ce
    return (gamma * std(logits, y)).exp() * ce
