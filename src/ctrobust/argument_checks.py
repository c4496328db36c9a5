"""Checks of numbers, counts and words that a caller gives. No torch."""

import math
from collections.abc import Collection
from numbers import Real

from ctrobust.errors import InputError

MOST = 10**9
MOST_COUNTS: dict[str, int] = {"restarts": 1000, "targets": 1000}
"""Counts of which each restart and target is a stage of its own; a stage takes memory before the first one runs."""


def check_number(value: float, name: str, low: float = 0.0, high: float = math.inf) -> None:
    """Raise unless the value is a finite number in [low, high].

    Example:
        >>> check_number(120, "eta", high=100)
        Traceback (most recent call last):
        ctrobust.errors.InputError: eta must be a finite number between 0 and 100; got 120
    """
    if not isinstance(value, Real):
        raise InputError(f"{name} must be a number; got {value!r}")
    if not (math.isfinite(value) and low <= value <= high):
        allowed = f"of at least {low:g}" if high == math.inf else f"between {low:g} and {high:g}"
        raise InputError(f"{name} must be a finite number {allowed}; got {value}")


def check_choice(value: str, name: str, allowed: Collection[str]) -> None:
    """Raise unless the value is one of the allowed words.

    Example:
        >>> check_choice("x", "std_at", ("adv", "clean"))
        Traceback (most recent call last):
        ctrobust.errors.InputError: std_at must be one of 'adv', 'clean'; got 'x'
    """
    if value not in allowed:
        raise InputError(f"{name} must be one of {', '.join(map(repr, allowed))}; got {value!r}")


def check_eps(eps: float, norm: str, name: str = "eps") -> None:
    """Raise unless this is a radius or step size for images in [0, 1]; in l2 it may be larger than 1."""
    if norm == "linf" and isinstance(eps, Real) and not 0.0 <= eps <= 1.0:
        raise InputError(
            f"{name} is for images in [0, 1] and so between 0 and 1, got {eps}; for 8 grey levels write 8/255"
        )
    check_number(eps, name)


def check_share(value: float, name: str) -> None:
    check_number(value, name, high=1.0)


def check_count(value: int, name: str, least: int = 1) -> None:
    if type(value) is not int or value < least:
        raise InputError(f"{name} is a whole number of at least {least}, got {value}")
    if value > (most := MOST_COUNTS.get(name, MOST)):
        raise InputError(f"{name} is at most {most:,}, got {value}")
