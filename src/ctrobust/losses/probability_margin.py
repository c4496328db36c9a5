"""The margin of probabilities, in a form whose gradient does not vanish."""

import torch
from torch import Tensor

from ctrobust.losses.classes import label_class
from ctrobust.losses.inputs import checked_labels, checked_logits


def probability_margin_log_odds(logits: Tensor, y: Tensor, target: Tensor | None = None) -> Tensor:
    """Log-odds of (1 + L) / 2, where L is the lead of the best wrong class over the label in probability.

    L = max_{j != y} p_j - p_y = p_w - p_y,  u = log((1 + L) / (1 - L)) = 2 artanh L

    u increases with L and so has its sign, and the gradient of u has the direction of the gradient of L:
    grad u = 2 / (1 - L^2) grad L. With e_j = exp z_j the sum of all e_j cancels in

    u = log(e_w + sum_{j != y} e_j) - log(e_y + sum_{j != w} e_j),

    two logsumexps that neither underflow nor overflow. The gradient of L vanishes where p_y or p_w rounds to 1; that of
    u does not: du/dz_w = 2 e_w / (e_w + sum_{j != y} e_j) >= 2 / C. Of tied wrong classes w is the first. With a given
    target in place of w this bound does not hold: both gradients vanish where a third class has all the probability.

    Args:
        logits: (N, C), C >= 2.
        y: (N,) integer labels.
        target: (N,) integer labels other than y, to take the place of w; None is the best wrong class.

    Returns:
        (N,).

    Example:
        >>> p = torch.tensor([[0.5, 0.3, 0.15, 0.05]])
        >>> torch.tanh(probability_margin_log_odds(p.log(), torch.tensor([0])) / 2)
        tensor([-0.2000])
        >>> probability_margin_log_odds(torch.tensor([[200.0, 0.0, -90.0]]), torch.tensor([0]))
        tensor([-200.])
    """
    logits = checked_logits(logits)
    y = checked_labels(y, logits)
    if target is None:
        target = logits.detach().scatter(-1, y.unsqueeze(-1), -torch.inf).argmax(-1)
    target = checked_labels(target, logits, name="target")
    return _exchanged(logits, y, target) - _exchanged(logits, target, y)


def _exchanged(logits: Tensor, left_out: Tensor, doubled: Tensor) -> Tensor:
    """Logarithm of the sum of all exp z_j, where one class is left out and another counts twice."""
    others = logits.scatter(-1, left_out.unsqueeze(-1), -torch.inf)
    return torch.cat([others, label_class(logits, doubled).unsqueeze(-1)], dim=-1).logsumexp(-1)
