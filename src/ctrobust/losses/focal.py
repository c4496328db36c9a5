"""The focal loss."""

from torch import Tensor

from ctrobust.argument_checks import check_number
from ctrobust.losses.classes import label_class, log_wrong_probability
from ctrobust.losses.inputs import checked_labels, checked_logits


def focal(logits: Tensor, y: Tensor, gamma: float = 2.0) -> Tensor:
    """Cross-entropy of each example, down-weighted as p_y grows (Lin et al.; FL in the paper's tables).

    (1 - p_y)^gamma L_CE

    The power is taken as exp(gamma log(1 - p_y)), whose gradient is finite at p_y = 1 for every gamma.

    Args:
        logits: (N, C), C >= 2.
        y: (N,) integer labels.
        gamma: Focusing exponent, >= 0; 0 is cross-entropy.

    Returns:
        (N,).

    Example:
        >>> import torch
        >>> p = torch.tensor([[0.5, 0.3, 0.15, 0.05]])
        >>> focal(p.log(), torch.tensor([0]))
        tensor([0.1733])
    """
    check_number(gamma, "gamma")
    logits = checked_logits(logits)
    y = checked_labels(y, logits)
    log_p = logits.log_softmax(-1)
    return (gamma * log_wrong_probability(log_p, y)).exp() * -label_class(log_p, y)
