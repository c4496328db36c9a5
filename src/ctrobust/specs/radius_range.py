"""Ranges of radii as text: `1/255..16/255`. No torch."""

import math
from fractions import Fraction

from ctrobust.errors import InputError
from ctrobust.specs.attack_text import parse_number

MOST_RADII = 100
"""The most radii of one range."""


def is_range(text: str) -> bool:
    """Whether a text is a range rather than one radius."""
    return ".." in text


def parse_range(text: str) -> list[float]:
    """The radii of a range, which goes from its first value to its last in steps of the first.

    Example:
        >>> [round(255 * radius) for radius in parse_range("2/255..8/255")], parse_range("0.05..0.2")
        ([2, 4, 6, 8], [0.05, 0.1, 0.15, 0.2])
    """
    first, last = (_fraction(part, text) for part in _ends(text))
    if last < first:
        raise InputError(f"the range {text!r} goes down; write the smaller radius first")
    count = last / first
    if count.denominator != 1 or count < 2:
        raise InputError(
            f"the range {text!r} goes up in steps of its first value, so its last value is 2, 3, ... times the first, "
            f"got {float(count):.4g} times"
        )
    if count > MOST_RADII:
        raise InputError(f"the range {text!r} has {int(count):,} radii; at most {MOST_RADII} are allowed")
    return [float(first * step) for step in range(1, int(count) + 1)]


def _ends(text: str) -> tuple[str, str]:
    first, _, last = text.partition("..")
    if not first.strip() or not last.strip():
        raise InputError(f"{text!r} is not a range of radii; write 1/255..16/255 or 0.05..0.4")
    return first.strip(), last.strip()


def _fraction(text: str, whole: str) -> Fraction:
    """The exact value of a number, which a float would round."""
    value = parse_number(text)
    if not value > 0:
        raise InputError(f"the radii of the range {whole!r} are positive, got {text}")
    if not math.isfinite(value):
        raise InputError(f"{text!r} is not finite; write 1/255..16/255 or 0.05..0.4")
    above, _, below = text.partition("/")
    return Fraction(above) / int(below or 1)
