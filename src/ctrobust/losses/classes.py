r"""The label's class and the wrong classes, the paper's f(x)\y."""

import torch
from torch import Tensor

# Wrong probabilities that differ by less than this share of the largest one count as equal. This bounds the gradients
# of log STD and of Pearson's coefficient, which grow as one over that difference.
FLAT = 1e-12


def label_class(values: Tensor, y: Tensor) -> Tensor:
    """Take the label's column from each row.

    Args:
        values: (N, C).
        y: (N,) int64.

    Returns:
        (N,).

    Example:
        >>> label_class(torch.tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]), torch.tensor([1, 2]))
        tensor([0.2000, 0.6000])
    """
    return values.gather(-1, y.unsqueeze(-1)).squeeze(-1)


def wrong_classes(values: Tensor, y: Tensor) -> Tensor:
    """Drop the label's column from each row, keeping the order of the others.

    Args:
        values: (..., N, C).
        y: (N,) int64.

    Returns:
        (..., N, C-1).

    Example:
        >>> wrong_classes(torch.tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]), torch.tensor([1, 2]))
        tensor([[0.1000, 0.3000],
                [0.4000, 0.5000]])
    """
    column = torch.arange(values.shape[-1] - 1, device=values.device)
    column = column + (column >= y.unsqueeze(-1))
    return values.gather(-1, column.expand(*values.shape[:-1], -1))


def below_top(wrong: Tensor) -> tuple[Tensor, Tensor]:
    """Subtract the largest wrong logit from the wrong logits.

    The largest one becomes a constant 0 and receives its gradient only through the others. So where it has nearly all
    the probability, its gradient is as small as it should be instead of the rounding error of 1 - 1.

    Args:
        wrong: (..., C-1) logits of the wrong classes.

    Returns:
        (..., C-1) the differences, and (..., 1) the largest logit.

    Example:
        >>> below_top(torch.tensor([[1.0, 4.0, 3.0]]))
        (tensor([[-3.,  0., -1.]]), tensor([[4.]]))
    """
    top, index = wrong.max(-1, keepdim=True)
    return (wrong - top).scatter(-1, index, 0.0), top


def wrong_deviations(below: Tensor) -> Tensor:
    """Deviations of the wrong probabilities from their mean, in units of the largest wrong probability.

    exp(b_j) - mean_j exp(b_j), b the logits minus the largest one

    Up to a positive factor these are the deviations of p_j, and of the softmax of the wrong logits. With expm1 they are
    exactly zero for equal logits and accurate for nearly equal ones.

    Args:
        below: (..., C-1), from `below_top`.

    Returns:
        (..., C-1).

    Example:
        >>> wrong_deviations(torch.tensor([[0.0, 0.0, -100.0]]))
        tensor([[ 0.3333,  0.3333, -0.6667]])
    """
    relative = torch.expm1(below)
    return relative - relative.mean(-1, keepdim=True)


def log_wrong_probability(log_p: Tensor, y: Tensor) -> Tensor:
    """log(1 - p_y), computed from the wrong classes and so accurate where p_y rounds to 1.

    Args:
        log_p: (N, C) log-probabilities.
        y: (N,) int64.

    Returns:
        (N,).

    Example:
        >>> log_wrong_probability(torch.tensor([[200.0, 0.0, 0.0]]).log_softmax(-1), torch.tensor([0]))
        tensor([-199.3069])
    """
    return wrong_classes(log_p, y).logsumexp(-1)
