"""The confidence threshold (CT) as it shows in a model's outputs: statistics to report, nothing to assert.

The paper's propositions are limits of a loss that has converged to zero; of a trained network the counts below are
measured and shown. Every probability is compared with a threshold rounded to the probabilities' own precision, so that
a probability of 1/(C-1) is a tie in float32 as it is in float64, and a tie is neither below nor above.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctrobust.errors import InputError

SWEEP_FRACTIONS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)
"""Fractions of 1/(C-1) at which the wrong categories are counted."""

CONFIDENCE_LEVELS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.45, 0.4, 0.35, 0.3, 0.25, 0.2, 0.15, 0.1, 0.05, 0.02, 0.01, 0.0)
"""Levels t of p_y > t; more of them below 0.5, because p_y > 0.5 leaves no other class as probable (rounding apart)."""

SUM_TOLERANCE = 1e-3
"""How far a row of probabilities may sum from 1: half precision does not sum to 1 exactly."""


@dataclass(frozen=True)
class ThresholdStatistics:
    """What N outputs over C classes say of the confidence threshold.

    Attributes:
        threshold: the theoretical CT, 1/(C-1).
        wrong_below: how many wrong categories have a probability < threshold.
        wrong_total: how many wrong categories there are, N (C-1).
        sweep_thresholds: the empirical CTs swept, falling.
        sweep_counts: how many wrong categories have a probability < each of them.
        confidence_levels: the levels t, falling.
        count_above: how many examples have p_y > t.
        accuracy_above: the accuracy among them; None where there are none.
        largest_wrong_confidence: the largest p_y among the misclassified examples; None where there are none.
    """

    threshold: float
    wrong_below: int
    wrong_total: int
    sweep_thresholds: tuple[float, ...]
    sweep_counts: tuple[int, ...]
    confidence_levels: tuple[float, ...]
    count_above: tuple[int, ...]
    accuracy_above: tuple[float | None, ...]
    largest_wrong_confidence: float | None

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain numbers, lists and None, which JSON keeps as they are.

        Example:
            >>> import numpy as np
            >>> threshold_statistics(np.array([[0.6, 0.3, 0.1]]), np.array([0])).to_dict()["sweep_counts"][:6]
            [2, 2, 2, 2, 1, 1]
        """
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def threshold_statistics(
    probabilities: NDArray[np.floating[Any]],
    labels: NDArray[np.integer[Any]],
    *,
    sweep_fractions: Sequence[float] = SWEEP_FRACTIONS,
    confidence_levels: Sequence[float] | None = None,
) -> ThresholdStatistics:
    """Measure the confidence threshold on a model's outputs.

    Definition 1 of the paper: above the CT p̂, p_y > p̂ almost always means a correct classification; below it, either.
    Section 4.1 derives p̂ = 1/(C-1) from p_j <= 1/(C-1) for every wrong category j. Measured are

    - #{(x, j): j != y, p_j < 1/(C-1)}, the table "number of wrong categories with probability less than the theoretical
      CT" (table 4), and the same count below smaller thresholds, the figure "tighter empirical CT" (figure 6);
    - accuracy{x: p_y > t} as t falls, and max{p_y: x misclassified}, definition 1 read off the data.

    An example is correct if y is the first of its largest probabilities (numpy's argmax): a tie between y and a class
    of lower index is an error. All comparisons are strict.

    Args:
        probabilities: (N, C) floating point, softmax outputs, N >= 1, C >= 2; rows sum to 1 within 1e-3.
        labels: (N,) integers in 0..C-1.
        sweep_fractions: the swept thresholds as fractions of 1/(C-1), falling, each in (0, 1].
        confidence_levels: the levels t, falling, each in [0, 1]; by default CONFIDENCE_LEVELS and 1/(C-1) among them.

    Returns:
        The statistics.

    Example:
        >>> import numpy as np
        >>> p = np.array([[0.7, 0.2, 0.1], [0.3, 0.6, 0.1]])
        >>> stats = threshold_statistics(p, np.array([0, 0]), confidence_levels=(0.8, 0.5, 0.2))
        >>> stats.threshold, stats.wrong_below, stats.wrong_total, stats.largest_wrong_confidence
        (0.5, 3, 4, 0.3)
        >>> stats.count_above, stats.accuracy_above
        ((0, 1, 2), (None, 1.0, 0.5))
    """
    _check_probabilities("probabilities", probabilities)
    N, C = probabilities.shape
    if N == 0:
        raise InputError("probabilities has no rows; the statistics need at least one example")
    _check_classes("labels", labels, N, C)
    threshold = 1 / (C - 1)
    if confidence_levels is None:
        confidence_levels = sorted({*CONFIDENCE_LEVELS, threshold}, reverse=True)
    _check_falling("sweep_fractions", sweep_fractions, zero_allowed=False)
    _check_falling("confidence_levels", confidence_levels, zero_allowed=True)

    is_label = np.arange(C) == labels[:, None]
    wrong = np.sort(probabilities[~is_label])
    p_y = probabilities[is_label]
    correct = probabilities.argmax(axis=1) == labels
    sweep_thresholds = tuple(threshold * float(fraction) for fraction in sweep_fractions)
    count_above = _count_above(np.sort(p_y), confidence_levels)
    correct_above = _count_above(np.sort(p_y[correct]), confidence_levels)
    return ThresholdStatistics(
        threshold=threshold,
        wrong_below=_count_below(wrong, (threshold,))[0],
        wrong_total=N * (C - 1),
        sweep_thresholds=sweep_thresholds,
        sweep_counts=_count_below(wrong, sweep_thresholds),
        confidence_levels=tuple(float(level) for level in confidence_levels),
        count_above=count_above,
        accuracy_above=tuple(
            right / count if count else None for right, count in zip(correct_above, count_above, strict=True)
        ),
        largest_wrong_confidence=None if correct.all() else float(p_y[~correct].max()),
    )


def attacked_rank(
    clean_probabilities: NDArray[np.floating[Any]],
    labels: NDArray[np.integer[Any]],
    attacked_prediction: NDArray[np.integer[Any]],
) -> NDArray[np.int64]:
    """Rank in the clean output of the class that each attacked example falls into.

    Section 2.3 of the paper: adversarial examples prefer the wrong categories of higher probability. The rank of class
    a is 1 + #{j != y: p_j > p_a}, so 1 is the most probable wrong class and C-1 the least; of equally probable classes
    the one of lower index comes first, as in argmax. It is 0 where the attacked prediction is still the label. An
    example misclassified before the attack is ranked among its wrong classes like any other.

    Args:
        clean_probabilities: (N, C) floating point, softmax outputs of the clean examples, C >= 2.
        labels: (N,) integers in 0..C-1.
        attacked_prediction: (N,) integers in 0..C-1, the class predicted under attack.

    Returns:
        (N,) int64 ranks, 0 to C-1.

    Example:
        >>> import numpy as np
        >>> p = np.array([[0.6, 0.1, 0.3], [0.6, 0.1, 0.3], [0.6, 0.1, 0.3]])
        >>> attacked_rank(p, np.array([0, 0, 0]), np.array([2, 1, 0])).tolist()
        [1, 2, 0]
    """
    _check_probabilities("clean_probabilities", clean_probabilities)
    N, C = clean_probabilities.shape
    _check_classes("labels", labels, N, C)
    _check_classes("attacked_prediction", attacked_prediction, N, C)
    label, attacked = labels[:, None], attacked_prediction[:, None]
    classes = np.arange(C)
    p_attacked = np.take_along_axis(clean_probabilities, attacked.astype(np.int64), axis=1)
    ahead = (clean_probabilities > p_attacked) | ((clean_probabilities == p_attacked) & (classes < attacked))
    rank = 1 + np.count_nonzero(ahead & (classes != label), axis=1)
    return np.where(attacked_prediction == labels, 0, rank).astype(np.int64)


def _count_below(ordered: NDArray[np.floating[Any]], thresholds: Sequence[float]) -> tuple[int, ...]:
    """How many of the ascending values are < each threshold."""
    return tuple(np.searchsorted(ordered, np.array(thresholds, ordered.dtype), side="left").tolist())


def _count_above(ordered: NDArray[np.floating[Any]], levels: Sequence[float]) -> tuple[int, ...]:
    """How many of the ascending values are > each level."""
    return tuple((ordered.size - np.searchsorted(ordered, np.array(levels, ordered.dtype), side="right")).tolist())


def _check_probabilities(name: str, values: NDArray[np.floating[Any]]) -> None:
    """Refuse what is not (N, C) rows of probabilities."""
    if not isinstance(values, np.ndarray):
        raise InputError(f"{name} is a {type(values).__name__}; allowed is a numpy array")
    if not np.issubdtype(values.dtype, np.floating) or values.ndim != 2:
        raise InputError(f"{name} is {values.dtype} of shape {values.shape}; allowed is floating point of shape (N, C)")
    if values.shape[1] < 2:
        raise InputError(f"{name} has {values.shape[1]} classes; a wrong category needs at least 2")
    finite = np.isfinite(values)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        raise InputError(f"{name}[{row}, {column}] is {values[row, column]}; allowed are finite probabilities")
    if (values < 0).any():
        row, column = np.argwhere(values < 0)[0]
        raise InputError(f"{name}[{row}, {column}] is {values[row, column]}; allowed is 0 to 1 (are these logits?)")
    sums = values.sum(axis=1, dtype=np.float64)
    off = np.flatnonzero(np.abs(sums - 1) > SUM_TOLERANCE)
    if off.size:
        raise InputError(f"{name}[{off[0]}] sums to {sums[off[0]]:.6g}; allowed is 1 within {SUM_TOLERANCE:g}")


def _check_classes(name: str, values: NDArray[np.integer[Any]], N: int, C: int) -> None:
    """Refuse what is not one class index for each of N examples."""
    if not isinstance(values, np.ndarray):
        raise InputError(f"{name} is a {type(values).__name__}; allowed is a numpy array")
    if not np.issubdtype(values.dtype, np.integer) or values.shape != (N,):
        raise InputError(f"{name} is {values.dtype} of shape {values.shape}; allowed are integers of shape ({N},)")
    outside = np.flatnonzero((values < 0) | (values >= C))
    if outside.size:
        raise InputError(f"{name}[{outside[0]}] is {values[outside[0]]}; allowed are the classes 0 to {C - 1}")


def _check_falling(name: str, values: Sequence[float], *, zero_allowed: bool) -> None:
    """Refuse a grid that does not fall within the unit interval."""
    for value in values:
        if not 0 <= value <= 1 or (value == 0 and not zero_allowed):
            raise InputError(f"{name} has {value}; allowed is {'[0, 1]' if zero_allowed else '(0, 1]'}")
    for above, below in pairwise(values):
        if not above > below:
            raise InputError(f"{name} has {below} after {above}; each value must be smaller than the one before")
