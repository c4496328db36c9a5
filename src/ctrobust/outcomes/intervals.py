"""Confidence intervals of a measured proportion."""

from dataclasses import dataclass

import numpy as np

from ctrobust.errors import InputError


@dataclass(frozen=True)
class Interval:
    """A confidence interval of a proportion, 0 <= low <= high <= 1."""

    low: float
    high: float


def wilson(successes: int, total: int, confidence: float = 0.95) -> Interval:
    """Wilson score interval of a proportion, without continuity correction.

    Both roots x of (s/n - x)^2 = z^2 x (1 - x) / n, for s successes of n and z the two-sided normal quantile. The
    interval stays inside [0, 1] and has a positive width where the proportion is 0 or 1.

    Args:
        successes: the number of successes, 0 to total.
        total: the number of trials, at least 1.
        confidence: the nominal coverage, strictly between 0 and 1.

    Example:
        >>> interval = wilson(1, 10)
        >>> round(interval.low, 4), round(interval.high, 4)
        (0.0179, 0.4042)
    """
    for name, value in (("successes", successes), ("total", total)):
        if not isinstance(value, int | np.integer):
            raise InputError(f"{name} is {value!r}; a count must be an integer")
    if total < 1:
        raise InputError(f"total is {total}; an interval needs at least one example")
    if not 0 <= successes <= total:
        raise InputError(f"successes is {successes}; it must lie between 0 and total, here {total}")
    if not 0 < confidence < 1:
        raise InputError(f"confidence is {confidence}; it must lie strictly between 0 and 1")
    from scipy.stats import binomtest  # imported here because SciPy takes a second to load

    found = binomtest(int(successes), int(total)).proportion_ci(confidence, method="wilson")
    return Interval(float(found.low), float(found.high))
