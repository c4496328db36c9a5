"""Label relaxation."""

import math

import torch
from torch import Tensor

from ctrobust.errors import InputError
from ctrobust.losses.classes import label_class, log_wrong_probability
from ctrobust.losses.inputs import checked_labels, checked_logits


def label_relaxation(logits: Tensor, y: Tensor, alpha: float = 0.1) -> Tensor:
    """Divergence to the nearest distribution that gives the label 1 - alpha (Lienen, Huellermeier; LR in the tables).

    0 where p_y >= 1 - alpha, else (1 - alpha) log((1 - alpha) / p_y) + alpha log(alpha / (1 - p_y))

    Args:
        logits: (N, C), C >= 2.
        y: (N,) integer labels.
        alpha: Probability that the wrong classes may keep, strictly between 0 and 1.

    Returns:
        (N,).

    Example:
        >>> p = torch.tensor([[0.5, 0.3, 0.15, 0.05], [0.95, 0.03, 0.01, 0.01]])
        >>> label_relaxation(p.log(), torch.tensor([0, 0]))
        tensor([0.3681, 0.0000])
    """
    if not 0 < alpha < 1:
        raise InputError(f"alpha must lie strictly between 0 and 1; got {alpha}")
    logits = checked_logits(logits)
    y = checked_labels(y, logits)
    log_p = logits.log_softmax(-1)
    log_label = label_class(log_p, y)
    log_target = math.log1p(-alpha)
    divergence = (1 - alpha) * (log_target - log_label) + alpha * (math.log(alpha) - log_wrong_probability(log_p, y))
    return torch.where(log_label < log_target, divergence, 0.0)
