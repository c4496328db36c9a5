"""Tables and figures as text: for a terminal, as Markdown, CSV and LaTeX. A rendering depends on the store alone."""

import csv
import io
from collections.abc import Callable, Sequence

from ctrobust.errors import InputError
from ctrobust.experiments import Cell, Figure, Table
from ctrobust.reporting.cell_values import CellValue, cell_values, difference
from ctrobust.store import JobIndex

LEGEND = (
    "Ours with its 95% interval, or mean and sample standard deviation over seeds; in parentheses the paper's value."
)
TIMES = "Times are CPU minutes here and wall-clock minutes on a GPU in the paper."


def render(experiment: Table | Figure, index: JobIndex, form: str) -> str:
    """Write a table or figure in one of the forms of RENDERERS."""
    if form not in RENDERERS:
        raise InputError(f"unknown rendering {form!r}; known: {', '.join(RENDERERS)}")
    return RENDERERS[form](experiment, cell_values(experiment, index))


def _csv(experiment: Table | Figure, values: Sequence[CellValue]) -> str:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(
        [
            "row",
            "column",
            "metric",
            "value",
            "low",
            "high",
            "spread",
            "jobs_done",
            "jobs",
            "paper",
            "difference",
            "remark",
        ]
    )
    for cell, value in zip(experiment.all_cells, values, strict=True):
        numbers = [value.value, value.low, value.high, value.spread]
        gap = difference(value, cell)
        writer.writerow(
            [
                cell.row, cell.column, cell.metric, *("" if one is None else f"{one:.6g}" for one in numbers),
                value.jobs_done, value.jobs, cell.printed or "", "" if gap is None else f"{gap:.6g}", value.remark,
            ]
        )  # fmt: skip
    return buffer.getvalue()


def _markdown(experiment: Table | Figure, values: Sequence[CellValue]) -> str:
    headers, rows = grid(experiment, values)
    lines = [f"**{experiment.name}** ({experiment.preset}): {experiment.title}", ""]
    lines += ["| " + " | ".join(row) + " |" for row in (headers, ["---"] * len(headers), *rows)]
    return "\n".join([*lines, "", *(f"- {note}" for note in footer(experiment, values))]) + "\n"


def _latex(experiment: Table | Figure, values: Sequence[CellValue]) -> str:
    headers, rows = grid(experiment, values, bold="\\textbf{{{}}}")
    body = [" & ".join(map(_escape_latex, row)) + r" \\" for row in (headers, *rows)]
    notes = [f"% {note}" for note in footer(experiment, values)]
    columns = "l" + "r" * (len(headers) - 1)
    return "\n".join(
        [*notes, rf"\begin{{tabular}}{{{columns}}}", r"\toprule", body[0], r"\midrule", *body[1:], r"\bottomrule",
         r"\end{tabular}"]
    ) + "\n"  # fmt: skip


def _terminal(experiment: Table | Figure, values: Sequence[CellValue]) -> str:
    headers, rows = grid(experiment, values, bold="{}")
    widths = [max(len(row[i]) for row in (headers, *rows)) for i in range(len(headers))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in (headers, *rows)]
    title = f"{experiment.name} ({experiment.preset}): {experiment.title}"
    rule = "-" * max(map(len, lines))
    text = [title, "", lines[0].rstrip(), rule, *(line.rstrip() for line in lines[1:]), ""]
    return "\n".join([*text, *footer(experiment, values)]) + "\n"


RENDERERS: dict[str, Callable[[Table | Figure, Sequence[CellValue]], str]] = {
    "terminal": _terminal,
    "markdown": _markdown,
    "csv": _csv,
    "latex": _latex,
}
"""Form -> function that writes it."""


def grid(
    experiment: Table | Figure, values: Sequence[CellValue], bold: str = "**{}**"
) -> tuple[list[str], list[list[str]]]:
    """Headers and rows of a table; the points of a figure are one row each."""
    found = {(cell.row, cell.column): (cell, value) for cell, value in zip(experiment.all_cells, values, strict=True)}
    if isinstance(experiment, Figure):
        pairs = zip(experiment.cells, values, strict=True)
        return ["series", "point", "value"], [[cell.row, cell.column, _text(cell, value)] for cell, value in pairs]
    best = _best(experiment, found)
    rows = []
    for row in experiment.rows:
        texts = []
        for column in experiment.columns:
            if (row.label, column.label) not in found:
                texts.append("")
                continue
            text = _text(*found[row.label, column.label])
            texts.append(bold.format(text) if (row.label, column.label) in best else text)
        rows.append([row.label, *texts])
    for label in dict.fromkeys(cell.row for cell in experiment.second_readings):
        columns = (column.label for column in experiment.columns)
        cells = [found.get((label, column)) for column in columns]
        rows.append([f"{label} (second reading)", *("" if cell is None else _text(*cell) for cell in cells)])
    return ["row", *(column.label for column in experiment.columns)], rows


def _best(table: Table, found: dict[tuple[str, str], tuple[Cell, CellValue]]) -> set[tuple[str, str]]:
    """The best value of each column or, where the paper compares groups of rows, of each group in it."""
    best: set[tuple[str, str]] = set()
    for column in table.columns:
        if column.better is None:
            continue
        groups: dict[str, dict[str, float | None]] = {}
        for row in table.rows:
            value = found.get((row.label, column.label), (None, CellValue(None)))[1].value
            group = row.group if table.bold_rule == "best of the group" else ""
            groups.setdefault(group, {})[row.label] = value
        for members in groups.values():
            values = [value for value in members.values() if value is not None]
            if len(values) < len(members) or len(set(values)) < 2:
                continue  # nothing is best before every row has a value
            top = max(values) if column.better == "higher" else min(values)
            best |= {(label, column.label) for label, value in members.items() if value == top}
    return best


def _text(cell: Cell, value: CellValue) -> str:
    paper = f" ({cell.printed})" if cell.printed is not None else ""
    if value.value is None:
        return f"{value.remark or 'not run'}{paper}"
    digits = 0 if cell.metric == "wrong_below" else 2
    number = f"{value.value:,.{digits}f}"
    if value.spread is not None:
        number += f" ± {value.spread:.2f}"
    elif value.low is not None and value.high is not None:
        number += f" [{value.low:.1f}, {value.high:.1f}]"
    return f"{number}{paper}"


def footer(experiment: Table | Figure, values: Sequence[CellValue]) -> list[str]:
    """Which preset, how much was run, and the readings that were chosen."""
    done = sum(value.value is not None for value in values)
    return [
        f"Preset {experiment.preset}; {done} of {len(values)} cells have a value.",
        LEGEND,
        *([TIMES] if any(cell.metric == "minutes" for cell in experiment.all_cells) else []),
        *experiment.footnotes,
    ]


def _escape_latex(text: str) -> str:
    for character in "&%#_":
        text = text.replace(character, f"\\{character}")
    return text.replace("±", r"$\pm$")
