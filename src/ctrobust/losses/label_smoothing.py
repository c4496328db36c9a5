"""Label smoothing."""

from torch import Tensor
from torch.nn import functional

from ctrobust.argument_checks import check_number
from ctrobust.losses.inputs import checked_labels, checked_logits


def label_smoothing(logits: Tensor, y: Tensor, epsilon: float = 0.1) -> Tensor:
    """Cross-entropy of each example against its smoothed label (Szegedy et al.; LS in the paper's tables).

    -sum_c t_c log p_c, t = (1 - epsilon) onehot(y) + epsilon / C

    Args:
        logits: (N, C), C >= 2.
        y: (N,) integer labels.
        epsilon: Probability spread evenly over all classes, in [0, 1].

    Returns:
        (N,).

    Example:
        >>> import torch
        >>> p = torch.tensor([[0.5, 0.3, 0.15, 0.05]])
        >>> label_smoothing(p.log(), torch.tensor([0]))
        tensor([0.7936])
    """
    check_number(epsilon, "epsilon", high=1)
    logits = checked_logits(logits)
    return functional.cross_entropy(logits, checked_labels(y, logits), reduction="none", label_smoothing=epsilon)
