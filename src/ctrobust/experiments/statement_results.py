"""Which of the text's statements hold on values that were measured, as far as they were."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from ctrobust.experiments.cell import CellName
from ctrobust.experiments.statements import Statement

Verdict = Literal["holds", "does not hold", "holds where run", "not run", "not about numbers"]


@dataclass(frozen=True)
class StatementResult:
    """A statement on measured values.

    Attributes:
        statement: the statement.
        known: how many of its checks have all their values.
        holding: how many of those hold.
    """

    statement: Statement
    known: int
    holding: int

    @property
    def verdict(self) -> Verdict:
        """Whether all checks hold, as far as their values are known."""
        if not self.statement.checks:
            return "not about numbers"
        if not self.known:
            return "not run"
        if self.holding < self.known:
            return "does not hold"
        return "holds" if self.known == len(self.statement.checks) else "holds where run"

    def line(self) -> str:
        """The verdict, how many checks it rests on, and the statement."""
        checks = len(self.statement.checks)
        counted = ""
        if checks > 1 and self.verdict in ("does not hold", "holds where run"):
            rest = f", {checks - self.known} not run" if self.known < checks else ""
            counted = f" ({self.holding} of {self.known} comparisons do{rest})"
        printed = " The paper's own printed values do not agree with it." if self.statement.agrees is False else ""
        return f"{self.verdict}{counted}: {self.statement.text}{printed}"


def check_statements(statements: Iterable[Statement], values: Mapping[CellName, float]) -> list[StatementResult]:
    """Check statements on the values that are known.

    Example:
        >>> from ctrobust.experiments.statements import Above
        >>> a, b = (CellName("table1", row, "x") for row in ("MDL", "DO"))
        >>> check_statements([Statement("MDL is better.", (Above(a, b),))], {a: 2.0, b: 1.0})[0].line()
        'holds: MDL is better.'
    """
    results = []
    for one in statements:
        known = [check for check in one.checks if all(name in values for name in check.cells())]
        holding = sum(check.holds(values.__getitem__) for check in known)
        results.append(StatementResult(one, len(known), holding))
    return results
