"""Statements on measured values."""

import pytest

from ctrobust.experiments import EXPERIMENTS, CellName, Check, Statement, check_statements
from ctrobust.experiments.statements import Above, above_all

from .planning import planned, printed_values

A, B, C = (CellName("t", row, "x") for row in "abc")


@pytest.mark.parametrize(
    ("checks", "values", "line"),
    [
        ((Above(A, B),), {A: 2.0, B: 1.0}, "holds: S."),
        ((Above(A, B),), {A: 1.0, B: 1.0}, "does not hold: S."),
        ((Above(A, B),), {A: 1.0}, "not run: S."),
        ((), {A: 1.0}, "not about numbers: S."),
        (above_all(A, [B, C]), {A: 2.0, B: 1.0, C: 1.0}, "holds: S."),
        (above_all(A, [B, C]), {A: 2.0, B: 1.0}, "holds where run (1 of 1 comparisons do, 1 not run): S."),
        (above_all(A, [B, C]), {A: 2.0, B: 1.0, C: 3.0}, "does not hold (1 of 2 comparisons do): S."),
        (above_all(A, [B, C]), {A: 2.0, C: 3.0}, "does not hold (0 of 1 comparisons do, 1 not run): S."),
    ],
)
def test_verdicts(checks: tuple[Check, ...], values: dict[CellName, float], line: str) -> None:
    (result,) = check_statements([Statement("S.", checks)], values)
    assert result.line() == line


def test_a_statement_that_the_paper_itself_contradicts_is_marked() -> None:
    (result,) = check_statements([Statement("S.", (Above(A, B),), agrees=False, remark="r")], {A: 2.0, B: 1.0})
    assert result.line() == "holds: S. The paper's own printed values do not agree with it."


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name.startswith("table")])
def test_verdicts_on_the_printed_values(name: str) -> None:
    results = check_statements(planned(name).statements, printed_values())
    for result in results:
        expected = result.statement.holds(printed_values().__getitem__)
        assert result.verdict == {True: "holds", False: "does not hold", None: "not about numbers"}[expected]
