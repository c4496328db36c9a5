r"""An example's own class and its wrong ones, the paper's f(x)\y."""

import torch
from torch import Tensor

# Wrong probabilities that differ by less than this part of the largest of them count as equal. It bounds the gradients
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
    """Measure the wrong logits from the largest of them.

    That one becomes a constant 0 and receives its gradient through the others alone. So where it holds nearly all the
    probability its gradient is as small as it should be, not the rounding of 1 - 1.

    Args:
        wrong: (..., C-1) logits of the wrong classes.

    Returns:
        (..., C-1) logits less the largest, and (..., 1) the largest.

    Example:
        >>> below_top(torch.tensor([[1.0, 4.0, 3.0]]))
        (tensor([[-3.,  0., -1.]]), tensor([[4.]]))
    """
    top, index = wrong.max(-1, keepdim=True)
    return (wrong - top).scatter(-1, index, 0.0), top


def wrong_deviations(below: Tensor) -> Tensor:
    """Deviations of the wrong probabilities from their mean, in units of the largest of them.

    exp(b_j) - mean_j exp(b_j), b the logits below the top one

    Up to one positive factor these are the deviations of p_j, and those of the softmax of the wrong logits. expm1 makes
    them exactly zero for equal logits, and loses no digits for nearly equal ones.

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
    """log(1 - p_y), summed from the wrong classes: exact where p_y rounds to 1.

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
