"""The difference between two training methods, each with one network or several seeds, on the same examples."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ctrobust.errors import InputError
from ctrobust.outcomes.comparison import check_same_examples, compare
from ctrobust.outcomes.evaluation import Evaluation
from ctrobust.outcomes.intervals import Interval
from ctrobust.outcomes.paired_tests import pooled_mcnemar

NORMAL_QUANTILE = 1.959963984540054
"""The 97.5% quantile of the normal distribution."""


@dataclass(frozen=True)
class PooledComparison:
    """Mean robust accuracy of the second networks minus that of the first ones, on the same examples.

    Attributes:
        first, second: the robust accuracy of each network.
        difference: mean of `second` minus mean of `first`.
        over_examples: the 95% interval for other examples and these networks.
        over_seeds: the 95% interval for other seeds and these examples; None unless both have at least two networks.
        p_value: of McNemar's test that the networks are equally accurate, pooled over seeds.
        examples: the number of examples.
    """

    first: tuple[float, ...]
    second: tuple[float, ...]
    difference: float
    over_examples: Interval
    over_seeds: Interval | None
    p_value: float
    examples: int


def compare_pooled(
    first: Sequence[Evaluation], second: Sequence[Evaluation], *, paired: bool = False
) -> PooledComparison:
    """Compare two groups of networks example by example; with one network each it is `compare`.

    With a_i and b_i the shares of the first and second networks that are robust on example i, the difference is the
    mean of d_i = b_i - a_i. Its interval over examples is mean +- 1.96 s(d) / sqrt(N), after half an example of each of
    the differences -1, 0, 0 and 1 is added as Agresti and Min do (2005); for one network each it is Newcombe's.
    The interval over seeds is Student's for the differences of the networks of one seed if `paired`, where both groups
    have the same seeds in the same order, and Welch's otherwise. The test is `pooled_mcnemar`.
    """
    if not first or not second:
        raise InputError(f"{len(first)} and {len(second)} evaluations are compared; each side needs at least one")
    if paired and len(first) != len(second):
        raise InputError(f"paired comparisons have as many networks on both sides; got {len(first)} and {len(second)}")
    for one in (*first[1:], *second):
        check_same_examples(first[0], one)
    a, b = (np.array([one.robust for one in side]) for side in (first, second))
    p, q = a.mean(axis=1), b.mean(axis=1)
    d = b.mean(axis=0) - a.mean(axis=0)
    if len(first) == len(second) == 1:
        single = compare(first[0], second[0])
        over_examples = Interval(single.low, single.high)
    else:
        over_examples = _over_examples(d)
    return PooledComparison(
        first=tuple(p.tolist()),
        second=tuple(q.tolist()),
        difference=float(q.mean() - p.mean()),
        over_examples=over_examples,
        over_seeds=_over_seeds(p, q, paired=paired),
        p_value=pooled_mcnemar(a, b),
        examples=len(d),
    )


def _over_examples(d: NDArray[np.float64]) -> Interval:
    """The interval of the mean of d (N,); it has a positive width also where all d are equal."""
    n = len(d) + 2
    mean = float(d.sum()) / n
    return _interval(mean, NORMAL_QUANTILE * math.sqrt(((float((d**2).sum()) + 1) / n - mean**2) / n))


def _over_seeds(p: NDArray[np.float64], q: NDArray[np.float64], *, paired: bool) -> Interval | None:
    if min(len(p), len(q)) < 2:
        return None
    from scipy.stats import t  # imported here because SciPy takes a second to load

    difference = float(q.mean() - p.mean())
    if paired:
        error, freedom = _standard_error(q - p), len(p) - 1.0
    else:
        u, v = _standard_error(p) ** 2, _standard_error(q) ** 2
        error = math.sqrt(u + v)
        freedom = (u + v) ** 2 / (u**2 / (len(p) - 1) + v**2 / (len(q) - 1)) if error > 0 else math.inf
    return _interval(difference, float(t.ppf(0.975, freedom)) * error)


def _standard_error(values: NDArray[np.float64]) -> float:
    return float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def _interval(middle: float, half: float) -> Interval:
    """An interval of differences of shares, which lie between -1 and 1."""
    return Interval(max(-1.0, middle - half), min(1.0, middle + half))
