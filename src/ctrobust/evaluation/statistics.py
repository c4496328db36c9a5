"""How sure a measured accuracy is, and whether two models measured on the same examples differ."""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from ctrobust.errors import InputError


@dataclass(frozen=True)
class Interval:
    """A confidence interval of a proportion, 0 <= low <= high <= 1."""

    low: float
    high: float


@dataclass(frozen=True)
class McNemar:
    """Two models on the same examples: b only the first has right, c only the second, and the exact p-value."""

    b: int
    c: int
    p_value: float


def wilson(successes: int, total: int, confidence: float = 0.95) -> Interval:
    """Wilson score interval of a proportion.

    Both roots x of (s/n - x)^2 = z^2 x (1 - x) / n, for s successes of n and z the two-sided normal quantile, without
    continuity correction. It stays inside [0, 1], and has a positive width where the proportion is 0 or 1.
    The lower root is taken as p^2 / (p + k/2 + sqrt(k (p (1-p) + k/4))), p = s/n, k = z^2/n, which cancels nothing and
    is 0 exactly at s = 0; the upper one is 1 minus the lower one of the failures.

    Args:
        successes: how many succeeded, 0 to total.
        total: out of how many, at least 1.
        confidence: the coverage aimed at, strictly between 0 and 1.

    Returns:
        The interval.

    Example:
        >>> interval = wilson(1, 10)
        >>> round(interval.low, 4), round(interval.high, 4)
        (0.0179, 0.4042)
    """
    for name, value in (("successes", successes), ("total", total)):
        if not isinstance(value, int | np.integer):
            raise InputError(f"{name} is {value!r}; it is a count: allowed are integers")
    if total < 1:
        raise InputError(f"total is {total}; an interval needs at least one example")
    if not 0 <= successes <= total:
        raise InputError(f"successes is {successes}; allowed are 0 to total, here {total}")
    if not 0 < confidence < 1:
        raise InputError(f"confidence is {confidence}; allowed is what lies strictly between 0 and 1")
    s, n = int(successes), int(total)  # numpy's integers would make the ends numpy scalars
    z = -NormalDist().inv_cdf(
        (1 - confidence) / 2
    )  # the tail keeps the digits that (1 + confidence) / 2 would round off
    return Interval(_wilson_low(s, n, z), 1 - _wilson_low(n - s, n, z))


def _wilson_low(s: int, n: int, z: float) -> float:
    """The lower root of Wilson's equation."""
    if s == 0:
        return 0.0
    p, k = s / n, z * z / n
    return p * (p / (p + k / 2 + math.sqrt(k * (p * ((n - s) / n) + k / 4))))


def mcnemar(first_correct: NDArray[np.bool_], second_correct: NDArray[np.bool_]) -> McNemar:
    """McNemar's exact test that two models are equally often right on the same examples.

    Under that hypothesis the b + c discordant examples fall to either side as a fair coin, so
    p = min(1, 2 P(X <= min(b, c))) with X ~ Binomial(b + c, 1/2); p = 1 where no example is discordant.

    Args:
        first_correct: (N,) bool, whether the first model has each example right, N at least 1.
        second_correct: (N,) bool, the second model on the same examples in the same order.

    Returns:
        b, c and the two-sided p-value.

    Example:
        >>> import numpy as np
        >>> mcnemar(np.array([True, True, True, True, False]), np.array([True, False, False, False, False]))
        McNemar(b=3, c=0, p_value=0.25)
    """
    for name, values in (("first_correct", first_correct), ("second_correct", second_correct)):
        if not isinstance(values, np.ndarray):
            raise InputError(f"{name} is a {type(values).__name__}; allowed is a numpy array")
        if values.dtype != np.bool_ or values.ndim != 1:
            raise InputError(f"{name} is {values.dtype} of shape {values.shape}; allowed is bool of shape (N,)")
    if first_correct.size != second_correct.size:
        raise InputError(
            f"first_correct has {first_correct.size} examples and second_correct {second_correct.size}; "
            "both models must be measured on the same ones"
        )
    if first_correct.size == 0:
        raise InputError("first_correct and second_correct are empty; a test needs at least one example")
    b = int(np.count_nonzero(first_correct & ~second_correct))
    c = int(np.count_nonzero(~first_correct & second_correct))
    return McNemar(b, c, _fair_coin_p_value(b, c))


def _fair_coin_p_value(b: int, c: int) -> float:
    """Two-sided exact binomial p-value of b against c tosses of a fair coin."""
    n = b + c
    mode = n // 2
    # Binomial weights relative to the central one, from the mode down to 0: w[i-1] / w[i] = i / (n-i+1) <= 1. Products
    # of such ratios neither overflow nor cancel, at any n, and 2^n and the factorials never appear.
    i = np.arange(mode, 0, -1, dtype=np.float64)
    with np.errstate(under="ignore"):
        weights = np.concatenate(([1.0], np.cumprod(i / (n - i + 1))))
        lower_half = float(weights.sum())
        tail = float(weights[mode - min(b, c) :].sum())
    total = 2 * lower_half - (1.0 if n % 2 == 0 else 0.0)  # an even n has one central weight, not two
    return min(1.0, 2 * tail / total)
