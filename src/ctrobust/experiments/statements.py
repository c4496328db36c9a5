"""What the paper's text states about its tables and figures, in forms that can be checked on values.

A check asks for the values of the cells that it names, in the units of their metric.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from ctrobust.experiments.cell import CellName

Values = Callable[[CellName], float]

PRINTED_DIGITS = 0.005 + 1e-9
"""How far a difference of printed values may be from the printed difference."""


class Check(Protocol):
    """A part of a statement that is true or false of values."""

    def cells(self) -> tuple[CellName, ...]:
        """The cells whose values are needed."""
        ...

    def holds(self, value: Values) -> bool:
        """Whether the values agree with the statement."""
        ...


@dataclass(frozen=True)
class Above:
    """The value of `upper` is greater than that of `lower`."""

    upper: CellName
    lower: CellName

    def cells(self) -> tuple[CellName, ...]:
        return self.upper, self.lower

    def holds(self, value: Values) -> bool:
        return value(self.upper) > value(self.lower)


@dataclass(frozen=True)
class MostAbove:
    """In more than half of the pairs, the first value is greater than the second."""

    pairs: tuple[tuple[CellName, CellName], ...]

    def cells(self) -> tuple[CellName, ...]:
        return tuple(name for pair in self.pairs for name in pair)

    def holds(self, value: Values) -> bool:
        return 2 * sum(value(upper) > value(lower) for upper, lower in self.pairs) > len(self.pairs)


@dataclass(frozen=True)
class Gains:
    """Each of `improved` exceeds the largest value of `baselines`; the text prints the least and the largest gain.

    A negative printed gain is a loss.
    """

    improved: tuple[CellName, ...]
    baselines: tuple[CellName, ...]
    least: float
    largest: float

    def cells(self) -> tuple[CellName, ...]:
        return self.improved + self.baselines

    def measured(self, value: Values) -> tuple[float, float]:
        """The least and the largest gain."""
        baseline = max(value(name) for name in self.baselines)
        gains = [value(name) - baseline for name in self.improved]
        return min(gains), max(gains)

    def holds(self, value: Values) -> bool:
        """Whether the gains have the signs of the printed ones; their sizes are compared by `as_printed`."""
        least, largest = self.measured(value)
        return (least > 0) == (self.least > 0) and (largest > 0) == (self.largest > 0)

    def as_printed(self, value: Values) -> bool:
        """Whether the gains are those that the text prints."""
        least, largest = self.measured(value)
        return abs(least - self.least) <= PRINTED_DIGITS and abs(largest - self.largest) <= PRINTED_DIGITS


@dataclass(frozen=True)
class Monotone:
    """The values rise along `sequence`, or fall if `falling`."""

    sequence: tuple[CellName, ...]
    falling: bool = False

    def cells(self) -> tuple[CellName, ...]:
        return self.sequence

    def holds(self, value: Values) -> bool:
        values = [value(name) for name in self.sequence]
        return all((a > b) if self.falling else (a < b) for a, b in pairwise(values))


@dataclass(frozen=True)
class RisesThenFalls:
    """The largest value along `sequence` is neither the first nor the last."""

    sequence: tuple[CellName, ...]

    def cells(self) -> tuple[CellName, ...]:
        return self.sequence

    def holds(self, value: Values) -> bool:
        values = [value(name) for name in self.sequence]
        return max(values) > max(values[0], values[-1])


@dataclass(frozen=True)
class FasterFall:
    """From its first to its second cell, `slow` falls by less than `fast`; the text prints both falls."""

    fast: tuple[CellName, CellName]
    slow: tuple[CellName, CellName]
    printed: tuple[float, float]

    def cells(self) -> tuple[CellName, ...]:
        return self.fast + self.slow

    def measured(self, value: Values) -> tuple[float, float]:
        """The falls of `fast` and `slow`."""
        return value(self.fast[0]) - value(self.fast[1]), value(self.slow[0]) - value(self.slow[1])

    def holds(self, value: Values) -> bool:
        fast, slow = self.measured(value)
        return fast > slow

    def as_printed(self, value: Values) -> bool:
        """Whether the falls are those that the text prints."""
        return all(abs(a - b) <= PRINTED_DIGITS for a, b in zip(self.measured(value), self.printed, strict=True))


@dataclass(frozen=True)
class WidensFrom:
    """The lead of `leader` over `other` never shrinks along the two sequences."""

    leader: tuple[CellName, ...]
    other: tuple[CellName, ...]

    def cells(self) -> tuple[CellName, ...]:
        return self.leader + self.other

    def holds(self, value: Values) -> bool:
        leads = [value(a) - value(b) for a, b in zip(self.leader, self.other, strict=True)]
        return all(first <= second for first, second in pairwise(leads))


@dataclass(frozen=True)
class Similar:
    """The values differ by at most `points`, a tolerance that the paper does not print."""

    group: tuple[CellName, ...]
    points: float

    def cells(self) -> tuple[CellName, ...]:
        return self.group

    def holds(self, value: Values) -> bool:
        values = [value(name) for name in self.group]
        return max(values) - min(values) <= self.points


@dataclass(frozen=True)
class Statement:
    """A sentence of the paper about a table or figure, in other words.

    Attributes:
        text: the paraphrase.
        checks: all must hold; none if the sentence cannot be checked on numbers.
        agrees: whether the paper's printed values agree; None if none are printed.
        remark: where the printed values disagree, or how the sentence was read.
    """

    text: str
    checks: tuple[Check, ...] = ()
    agrees: bool | None = True
    remark: str = ""

    def holds(self, value: Values) -> bool | None:
        """Whether all checks hold; None if there are none."""
        return all(check.holds(value) for check in self.checks) if self.checks else None

    def agrees_with_print(self, value: Values) -> bool:
        """Whether printed values fulfil all checks, printed differences included."""
        return all(
            check.as_printed(value) if isinstance(check, Gains | FasterFall) else check.holds(value)
            for check in self.checks
        )


def above_all(upper: CellName, others: Sequence[CellName]) -> tuple[Above, ...]:
    """One check for each other cell."""
    return tuple(Above(upper, lower) for lower in others if lower != upper)
