"""The paper's statements about a table or figure, checked on what is stored."""

from collections import Counter

from ctrobust.experiments import EXPERIMENTS, CellName, Figure, Table, check_statements, experiment
from ctrobust.reporting.cell_values import cell_values
from ctrobust.store import JobIndex

PLURALS = {
    "holds": "hold",
    "does not hold": "do not hold",
    "holds where run": "hold where run",
    "not run": "not run",
    "not about numbers": "not about numbers",
}
"""Verdict on a statement -> the verdict on several."""


def statement_lines(one: Table | Figure, index: JobIndex) -> list[str]:
    """How many statements hold, then each that could be checked; nothing if there are none."""
    if not one.statements:
        return []
    results = check_statements(one.statements, measured_values(one, index))
    counts = Counter(result.verdict for result in results)
    summary = ", ".join(f"{count} {verdict if count == 1 else PLURALS[verdict]}" for verdict, count in counts.items())
    checked = [result for result in results if result.known]
    return [f"Statements of the paper's text: {summary}.", *(result.line() for result in checked)]


def measured_values(one: Table | Figure, index: JobIndex) -> dict[CellName, float]:
    """The values that are known of the cells that the statements name, also of other tables and figures."""
    names = {name for statement in one.statements for check in statement.checks for name in check.cells()}
    others = sorted({name.experiment for name in names if name.experiment in EXPERIMENTS} - {one.name})
    found = {}
    for source in (one, *(experiment(name, one.preset) for name in others)):
        for name, value in zip(source.names(), cell_values(source, index), strict=True):
            if name in names and value.value is not None:
                found[name] = value.value
    return found
