"""Average ranks as in the paper's table 1."""

from collections.abc import Sequence


def ranks(values: Sequence[float]) -> list[float]:
    """Rank values from the largest, 1; equal values share the mean of their ranks.

    Example:
        >>> ranks([93.1, 95.0, 93.1])
        [2.5, 1.0, 2.5]
    """
    return [
        1 + sum(other > value for other in values) + (sum(other == value for other in values) - 1) / 2
        for value in values
    ]


def average_ranks(rows: Sequence[Sequence[float]]) -> list[float]:
    """The mean rank of each row over the columns.

    Example:
        >>> average_ranks([[3.0, 1.0], [2.0, 2.0], [1.0, 0.0]])
        [1.5, 1.5, 3.0]
    """
    by_column = [ranks(column) for column in zip(*rows, strict=True)]
    return [sum(column[i] for column in by_column) / len(by_column) for i in range(len(rows))]
