"""Tables and figures as text: for a terminal, as Markdown, CSV and LaTeX. A rendering depends on the store alone."""

import csv
import io
from collections.abc import Collection, Sequence

from ctrobust.errors import InputError
from ctrobust.experiments import Figure, MeanSpread, Table
from ctrobust.reporting.cell_values import CellValue, cell_values, difference
from ctrobust.reporting.footers import footer
from ctrobust.reporting.grids import CellText, Grid, GridColumn, best_values, grids
from ctrobust.reporting.latex_tables import latex_text
from ctrobust.reporting.statement_lines import statement_lines
from ctrobust.reporting.terminal_tables import TERMINAL_LEGEND, terminal_text
from ctrobust.specs import Job
from ctrobust.store import JobIndex

LEGEND = (
    "Ours with its 95% interval in brackets, or mean and sample standard deviation over seeds; in parentheses the "
    "paper's value and the difference, ours minus the paper's."
)

RENDERERS = ("terminal", "markdown", "csv", "latex")
"""The forms of a rendering."""


def render(
    experiment: Table | Figure, index: JobIndex, form: str, *, width: int = 80, failed: Collection[Job] = ()
) -> str:
    """Write a table or figure in one of the forms of RENDERERS.

    Args:
        experiment: the table or figure.
        index: the finished jobs.
        form: one of RENDERERS.
        width: the width of the terminal, for that form.
        failed: jobs that have just failed; their cells are marked.
    """
    if form not in RENDERERS:
        raise InputError(f"unknown rendering {form!r}; known: {', '.join(RENDERERS)}")
    values = cell_values(experiment, index, failed)
    if form == "csv":
        return _csv(experiment, values)
    tables = grids(experiment, values)
    statements = statement_lines(experiment, index)
    if form == "terminal":
        title = f"{experiment.name} ({experiment.preset}): {experiment.title}"
        footnotes = footer(experiment, values, index, TERMINAL_LEGEND, bold="*")
        return terminal_text(title, tables, [*footnotes, *statements], width)
    footnotes = [*footer(experiment, values, index, LEGEND), *statements[:1]]
    if form == "latex":
        return latex_text(experiment.name, experiment.title, tables, footnotes)
    return _markdown(experiment, tables, footnotes, statements[1:])


CSV_COLUMNS = (
    "row", "column", "metric", "value", "low", "high", "spread", "jobs_done", "jobs", "paper", "difference", "remark",
    "paper_spread", "bold", "paper_bold", "experiment", "preset",
)  # fmt: skip


def _csv(experiment: Table | Figure, values: Sequence[CellValue]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    pairs = list(zip(experiment.all_cells, values, strict=True))
    found = {(cell.row, cell.column): (cell, value) for cell, value in pairs}
    best = best_values(experiment, found) if isinstance(experiment, Table) else set()
    for cell, value in pairs:
        paper = cell.paper
        printed, spread = paper if isinstance(paper, MeanSpread) else (paper, None)
        ours = [_number(one) for one in (value.value, value.low, value.high, value.spread)]
        writer.writerow(
            [
                cell.row, cell.column, cell.metric, *ours, value.jobs_done, value.jobs, _number(printed),
                _number(difference(value, cell)), value.remark, _number(spread),
                int((cell.row, cell.column) in best), int(cell.bold), experiment.name, experiment.preset,
            ]
        )  # fmt: skip
    return buffer.getvalue()


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def _markdown(
    experiment: Table | Figure, tables: Sequence[Grid], footnotes: Sequence[str], statements: Sequence[str]
) -> str:
    lines = [f"**{experiment.name}** ({experiment.preset}): {experiment.title}"]
    for grid in tables:
        lines += ["", *([f"*{grid.title}*", ""] if grid.title else []), *markdown_table(grid)]
    lines += ["", *(f"- {footnote}" for footnote in footnotes)]
    lines += [f"  - {statement}" for statement in statements]
    return "\n".join(lines) + "\n"


def markdown_table(grid: Grid) -> list[str]:
    """The lines of a grid as a Markdown table."""
    rows = [[grid.corner or " ", *map(_markdown_header, grid.columns)], ["---"] * (1 + len(grid.columns))]
    for row in grid.rows:
        cells = (grid.texts.get((row, column.label)) for column in grid.columns)
        rows.append([row, *("" if one is None else _markdown_cell(one) for one in cells)])
    return ["| " + " | ".join(text.replace("|", r"\|") for text in row) + " |" for row in rows]


def _markdown_header(column: GridColumn) -> str:
    units = f" ({column.ours}; paper {column.paper})" if column.ours != "ours" else ""
    return " ".join(column.headers) + units


def _markdown_cell(one: CellText) -> str:
    ours = f"**{one.ours}**" if one.bold else one.ours
    paper = f"**{one.paper}**" if one.paper_bold else one.paper
    printed = ", ".join(filter(None, (paper, one.difference)))
    return " ".join(filter(None, (ours, one.interval.replace("±", "± "), f"({printed})" if printed else "")))
