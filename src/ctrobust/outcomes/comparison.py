"""The difference between two models evaluated on the same examples."""

import math
from dataclasses import dataclass

import numpy as np

from ctrobust.errors import InputError
from ctrobust.outcomes.evaluation import Evaluation
from ctrobust.outcomes.intervals import wilson
from ctrobust.outcomes.paired_tests import McNemar, mcnemar


@dataclass(frozen=True)
class Comparison:
    """Robust accuracy of a second model minus that of a first one, on the same examples.

    Attributes:
        first, second: the robust accuracies.
        difference: second - first.
        low, high: the 95% interval of the difference.
        test: McNemar's exact test that the two are equal.
    """

    first: float
    second: float
    difference: float
    low: float
    high: float
    test: McNemar


def compare(first: Evaluation, second: Evaluation) -> Comparison:
    """Compare two models example by example.

    The interval is Newcombe's for paired proportions (1998, method 10): the Wilson limits of both accuracies, combined
    with the correlation phi between the two models' outcomes. Without an attack, robust accuracy is accuracy.
    """
    check_same_examples(first, second)
    a, b = first.robust, second.robust
    low, high = _newcombe(int((a & b).sum()), int((b & ~a).sum()), int((a & ~b).sum()), int((~a & ~b).sum()))
    p, q = first.robust_accuracy, second.robust_accuracy
    return Comparison(p, q, q - p, low, high, mcnemar(a, b))


def check_same_examples(first: Evaluation, second: Evaluation) -> None:
    """Raise unless both evaluations have as many examples with the same labels."""
    if len(first) != len(second):
        raise InputError(f"the evaluations have {len(first)} and {len(second)} examples; compare the same examples")
    if not np.array_equal(first.labels, second.labels):
        raise InputError("the labels of the two evaluations differ; compare the same examples")


def _newcombe(both: int, only_second: int, only_first: int, neither: int) -> tuple[float, float]:
    n = both + only_second + only_first + neither
    p, q = (both + only_second) / n, (both + only_first) / n
    second, first = wilson(both + only_second, n), wilson(both + only_first, n)
    product = (both + only_second) * (only_first + neither) * (both + only_first) * (only_second + neither)
    covariance = float(both * neither - only_second * only_first)
    if covariance > 0:  # the continuity correction of method 10
        covariance = max(covariance - n / 2, 0.0)
    phi = 0.0 if product == 0 else covariance / math.sqrt(product)
    down = (p - second.low) ** 2 - 2 * phi * (p - second.low) * (first.high - q) + (first.high - q) ** 2
    up = (q - first.low) ** 2 - 2 * phi * (q - first.low) * (second.high - p) + (second.high - p) ** 2
    return p - q - math.sqrt(down), p - q + math.sqrt(up)
