"""Whether two models measured on the same examples differ."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ctrobust.errors import InputError


@dataclass(frozen=True)
class McNemar:
    """McNemar's test of two models on the same examples.

    Attributes:
        b: the number of examples that only the first model classifies correctly.
        c: the number of examples that only the second model classifies correctly.
        p_value: the exact two-sided p-value.
    """

    b: int
    c: int
    p_value: float


def mcnemar(first_correct: NDArray[np.bool_], second_correct: NDArray[np.bool_]) -> McNemar:
    """McNemar's exact test that two models are equally accurate on the same examples.

    Under the null hypothesis each of the b + c discordant examples favours either model with probability 1/2, so
    p = min(1, 2 P(X <= min(b, c))) with X ~ Binomial(b + c, 1/2); p = 1 where no example is discordant.

    Args:
        first_correct: (N,) bool, whether the first model classifies each example correctly, N at least 1.
        second_correct: (N,) bool, the same for the second model, on the same examples in the same order.

    Example:
        >>> import numpy as np
        >>> mcnemar(np.array([True, True, True, True, False]), np.array([True, False, False, False, False]))
        McNemar(b=3, c=0, p_value=0.25)
    """
    for name, values in (("first_correct", first_correct), ("second_correct", second_correct)):
        if not isinstance(values, np.ndarray):
            raise InputError(f"{name} is a {type(values).__name__}; it must be a NumPy array")
        if values.dtype != np.bool_ or values.ndim != 1:
            raise InputError(f"{name} is {values.dtype} of shape {values.shape}; it must be bool of shape (N,)")
    if first_correct.size != second_correct.size:
        raise InputError(
            f"first_correct has {first_correct.size} examples and second_correct {second_correct.size}; "
            "both models must be measured on the same examples"
        )
    if first_correct.size == 0:
        raise InputError("first_correct and second_correct are empty; the test needs at least one example")
    b = int(np.count_nonzero(first_correct & ~second_correct))
    c = int(np.count_nonzero(~first_correct & second_correct))
    return McNemar(b, c, _exact_p_value(b, c))


def pooled_mcnemar(first_correct: NDArray[np.bool_], second_correct: NDArray[np.bool_]) -> float:
    """McNemar's exact test pooled over several networks on each side; the p-value.

    The same example under several networks is not several examples. With d_i the number of second networks that
    classify example i correctly, times K, minus that of first networks times L (K first and L second networks), the
    null hypothesis is that d_i is as likely to be negative as positive. So the sign of each d_i is random, and p is the
    probability that the sum of |d_i| with random signs is at least as far from zero as the observed one. For K = L = 1
    this is `mcnemar`. It is exact for K = L; otherwise d_i can be skewed, and p is close for many examples.

    Args:
        first_correct: (K, N) bool, whether each first network classifies each example correctly.
        second_correct: (L, N) bool, the same for the second networks, on the same examples in the same order.

    Example:
        >>> import numpy as np
        >>> pooled_mcnemar(np.array([[True, True, True, False]]), np.array([[False, False, False, False]]))
        0.25
    """
    K, L = len(first_correct), len(second_correct)
    if K == L == 1:
        return mcnemar(first_correct[0], second_correct[0]).p_value
    d = second_correct.sum(axis=0) * K - first_correct.sum(axis=0) * L
    d = d // np.gcd.reduce(d) if d.any() else d
    sizes, counts = np.unique(np.abs(d[d != 0]), return_counts=True)
    if not len(sizes):
        return 1.0
    return _random_sign_p_value(sizes, counts, abs(int(d.sum())))


def _random_sign_p_value(sizes: NDArray[np.int64], counts: NDArray[np.int64], observed: int) -> float:
    """P(|S| >= observed), S the sum of `counts` numbers of each of `sizes` with random signs."""
    from scipy.stats import binom

    distribution = np.ones(1)  # of (S + total) / 2, a sum in which each number is included with probability 1/2
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        included = binom.pmf(np.arange(count + 1), count, 0.5)
        wider = np.zeros(len(distribution) + size * count)
        for start in range(min(size, len(distribution))):
            summed = np.convolve(distribution[start::size], included)
            wider[start : start + size * len(summed) : size] = summed
        distribution = wider
    total = len(distribution) - 1
    distances = np.abs(2 * np.arange(total + 1) - total)
    return float(min(1.0, distribution[distances >= observed].sum()))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction of several p-values: the i-th smallest times the number of those not smaller, made monotone.

    Example:
        >>> holm([0.01, 0.04, 0.03])
        [0.03, 0.06, 0.06]
    """
    corrected, largest = [0.0] * len(p_values), 0.0
    for place, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[i]))
        corrected[i] = largest
    return corrected


def _exact_p_value(b: int, c: int) -> float:
    if b + c == 0:
        return 1.0
    from scipy.stats import binomtest  # imported here because SciPy takes a second to load

    return float(binomtest(min(b, c), b + c).pvalue)
