"""The standard deviation loss, and its logarithm."""

import math

import torch
from torch import Tensor

from ctrobust.losses.classes import FLAT, below_top, label_class, wrong_classes, wrong_deviations
from ctrobust.losses.inputs import checked_labels, checked_logits


def std(logits: Tensor, y: Tensor) -> Tensor:
    r"""Standard deviation of each example's wrong probabilities.

    L_STD = S(f(x)\y), S the unbiased standard deviation (divisor C - 2)

    L_STD is in [0, 1/sqrt(C-1)]. Where all wrong probabilities are equal the true gradient is infinite; zero is used.

    Args:
        logits: (N, C), C >= 3: a single wrong class has no deviation.
        y: (N,) integer labels.

    Returns:
        (N,).

    Example:
        >>> p = torch.tensor([[0.5, 0.3, 0.15, 0.05]])
        >>> std(p.log(), torch.tensor([0]))
        tensor([0.1258])
    """
    log_top, spread = _factors(logits, y)
    return log_top.exp() * spread


def log_std(logits: Tensor, y: Tensor) -> Tensor:
    """Logarithm of the standard deviation loss, whose gradient does not vanish where the loss underflows.

    log L_STD = log(1 - p_y) + log S(c), c the softmax of the wrong logits

    Its gradient is the gradient of L_STD divided by L_STD. Both have the same sign, so an attack that uses only the
    sign may ascend either. The wrong probabilities of a confident network, and with them the gradient of L_STD,
    underflow in float32; the gradient of the logarithm does not. A deviation below `FLAT` (1e-12) of the largest wrong
    probability is raised to that bound, with gradient zero.

    Args:
        logits: (N, C), C >= 3.
        y: (N,) integer labels.

    Returns:
        (N,).

    Example:
        >>> logits, y = torch.tensor([[200.0, 0.0, 1.0, 2.0]]), torch.tensor([0])
        >>> std(logits, y), log_std(logits, y)
        (tensor([0.]), tensor([-198.8042]))
    """
    log_top, spread = _factors(logits, y)
    value = log_top + spread.clamp_min(FLAT).log()
    return torch.where(spread > FLAT, value, value.detach())


def _factors(logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Two factors of STD that do not underflow: the log of the largest wrong probability, and STD in units of it."""
    logits = checked_logits(logits, classes=3)
    y = checked_labels(y, logits)
    below, top = below_top(wrong_classes(logits, y))
    # The gradient of vector_norm at zero is zero; that of the square root of a variance is infinite.
    spread: Tensor = torch.linalg.vector_norm(wrong_deviations(below), dim=-1) / math.sqrt(logits.shape[-1] - 2)
    relative = torch.cat([below, label_class(logits, y).unsqueeze(-1) - top], dim=-1)
    return -relative.logsumexp(-1), spread
