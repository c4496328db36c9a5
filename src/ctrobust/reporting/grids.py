"""Tables and the panels of figures as grids of texts, which every rendering arranges in its own way."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ctrobust.experiments import Cell, Figure, MeanSpread, Table
from ctrobust.reporting.cell_values import CellValue, difference

Position = tuple[str, str]
"""The labels of a row and a column."""


@dataclass(frozen=True)
class CellText:
    """The texts of one cell.

    Attributes:
        ours: our value, or why there is none.
        low, high: the 95% interval, empty where there is none.
        spread: the sample standard deviation over seeds, empty where there is none.
        paper: the paper's value.
        difference: ours minus the paper's.
        bold, paper_bold: whether our value is bold by the paper's rule, and whether the paper's is.
        known: whether there is a value.
    """

    ours: str
    low: str = ""
    high: str = ""
    spread: str = ""
    paper: str = ""
    difference: str = ""
    bold: bool = False
    paper_bold: bool = False
    known: bool = False

    @property
    def margin(self) -> str:
        """The spread, or the larger half of the interval, after a plus-minus sign."""
        if self.spread:
            return f"±{self.spread}"
        if not self.low:
            return ""
        middle = float(self.ours.replace(",", ""))
        return f"±{max(middle - float(self.low), float(self.high) - middle):.1f}"

    @property
    def interval(self) -> str:
        """The spread, or the interval in brackets."""
        return f"±{self.spread}" if self.spread else f"[{self.low}, {self.high}]" if self.low else ""


@dataclass(frozen=True)
class GridColumn:
    """A column: its label, its header texts from the top, and the titles of our and the paper's values."""

    label: str
    headers: tuple[str, ...]
    ours: str = "ours"
    paper: str = "paper"


@dataclass(frozen=True)
class Grid:
    """Rows and columns of texts; a position without a cell is empty."""

    title: str
    corner: str
    rows: tuple[str, ...]
    columns: tuple[GridColumn, ...]
    texts: Mapping[Position, CellText]


def grids(experiment: Table | Figure, values: Sequence[CellValue]) -> list[Grid]:
    """A table and its second readings, or the panels of a figure."""
    found = {(cell.row, cell.column): (cell, value) for cell, value in zip(experiment.all_cells, values, strict=True)}
    if isinstance(experiment, Table):
        return _table_grids(experiment, found)
    panels = []
    for panel in experiment.panels:
        points = {point.cell.column: point for line in panel.series for point in line.points}
        columns = [GridColumn(label, (label.removeprefix(f"{panel.title}: "),)) for label in points]
        rows = tuple(line.label for line in panel.series)
        texts = {
            (point.cell.row, point.cell.column): cell_text(*found[point.cell.row, point.cell.column])
            for line in panel.series
            for point in line.points
        }
        panels.append(Grid(panel.title, panel.x_title, rows, tuple(columns), texts))
    return panels


def _table_grids(table: Table, found: Mapping[Position, tuple[Cell, CellValue]]) -> list[Grid]:
    best = best_values(table, found)
    main = {position: cell_text(*found[position], bold=position in best) for position in _positions(table.cells)}
    second = {position: cell_text(*found[position]) for position in _positions(table.second_readings)}
    minutes = {cell.column for cell in table.all_cells if cell.metric == "minutes"}
    columns = tuple(
        GridColumn(one.label, one.headers, "CPU min", "GPU min") if one.label in minutes
        else GridColumn(one.label, one.headers)
        for one in table.columns
    )  # fmt: skip
    corner = table.row_headers[0]
    result = [Grid("", corner, tuple(row.label for row in table.rows), columns, main)]
    if second:
        rows = tuple(dict.fromkeys(row for row, _ in second))
        used = {column for _, column in second}
        result.append(Grid("Second reading", corner, rows, tuple(one for one in columns if one.label in used), second))
    return result


def _positions(cells: Collection[Cell]) -> list[Position]:
    return [(cell.row, cell.column) for cell in cells]


def cell_text(cell: Cell, value: CellValue, *, bold: bool = False) -> CellText:
    """Write the value of a cell with the digits of its metric."""
    printed = cell.paper
    paper = cell.printed or ""
    if isinstance(printed, MeanSpread):
        paper = paper.replace("+", " ± ")
    elif cell.metric == "wrong_below" and printed is not None:
        paper = f"{printed:,.0f}"
    if value.value is None:
        return CellText(value.remark or "not run", paper=paper, paper_bold=cell.bold, known=value.is_known)
    digits = 0 if cell.metric == "wrong_below" else 2
    gap = difference(value, cell)
    return CellText(
        ours=f"{value.value:,.{digits}f}",
        low="" if value.low is None else f"{value.low:.1f}",
        high="" if value.high is None else f"{value.high:.1f}",
        spread="" if value.spread is None else f"{value.spread:.{digits}f}",
        paper=paper,
        difference="" if gap is None else f"{gap:+,.{digits}f}",
        bold=bold,
        paper_bold=cell.bold,
        known=True,
    )


def best_values(table: Table, found: Mapping[Position, tuple[Cell, CellValue]]) -> set[Position]:
    """The positions of our values that the paper's rule prints in bold.

    That is the best of each column or of each group of rows in it, once every row has a value, or the rows that the
    authors chose.
    """
    if table.bold_rule == "chosen rows":
        return {
            (cell.row, cell.column) for cell in table.cells if cell.bold and found[cell.row, cell.column][1].is_known
        }
    best: set[Position] = set()
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
