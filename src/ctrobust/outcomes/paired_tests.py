"""Whether two models measured on the same examples differ."""

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


def _exact_p_value(b: int, c: int) -> float:
    if b + c == 0:
        return 1.0
    from scipy.stats import binomtest  # imported here because SciPy takes a second to load

    return float(binomtest(min(b, c), b + c).pvalue)
