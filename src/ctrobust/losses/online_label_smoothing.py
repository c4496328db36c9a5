"""Online label smoothing."""

from torch import Tensor

from ctrobust.argument_checks import check_number
from ctrobust.errors import InputError
from ctrobust.losses.classes import label_class
from ctrobust.losses.inputs import checked_labels, checked_logits


def online_label_smoothing(logits: Tensor, y: Tensor, soft_labels: Tensor, soft_weight: float = 0.5) -> Tensor:
    """Cross-entropy of each example, half to its label and half to its class's soft label (Zhang et al.; OLS).

    (1 - w) L_CE - w sum_c S[y]_c log p_c, w = 1/2

    Args:
        logits: (N, C), C >= 2.
        y: (N,) integer labels.
        soft_labels: (C, C) S, on the device of the logits; row y is the mean output of the last epoch's correctly
            classified examples of class y. S is zero in the first epoch, which leaves L_CE / 2.
        soft_weight: w, in [0, 1].

    Returns:
        (N,).

    Example:
        >>> import torch
        >>> p = torch.tensor([[0.5, 0.3, 0.15, 0.05]])
        >>> online_label_smoothing(p.log(), torch.tensor([0]), torch.tensor([0.7, 0.2, 0.07, 0.03]).expand(4, 4))
        tensor([0.8209])
    """
    check_number(soft_weight, "soft_weight", high=1)
    logits = checked_logits(logits)
    y = checked_labels(y, logits)
    C = logits.shape[-1]
    if not soft_labels.is_floating_point() or soft_labels.shape != (C, C):
        raise InputError(
            f"soft_labels must be a floating tensor of shape ({C}, {C}) for {C} classes; "
            f"got {soft_labels.dtype} of shape {tuple(soft_labels.shape)}"
        )
    log_p = logits.log_softmax(-1)
    soft = (soft_labels.to(log_p.dtype)[y] * log_p).sum(-1)
    return -((1 - soft_weight) * label_class(log_p, y) + soft_weight * soft)
