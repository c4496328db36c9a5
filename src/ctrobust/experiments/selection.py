"""Tables and figures with only the cells whose labels contain given texts."""

from collections.abc import Sequence
from dataclasses import replace

from ctrobust.errors import InputError
from ctrobust.experiments.cell import Cell, CellName
from ctrobust.experiments.figure import Figure, Series
from ctrobust.experiments.statements import Statement
from ctrobust.experiments.table import Table

SHOWN_LABELS = 4
"""The number of rows and of columns that are named where no cell was found."""


def select_cells(experiments: Sequence[Table | Figure], texts: Sequence[str]) -> list[Table | Figure]:
    """Each table and figure with only the cells whose row and column contain every text; empty ones are left out.

    Example:
        >>> from ctrobust.experiments import experiment
        >>> (table,) = select_cells([experiment("table1"), experiment("figure7")], ["MNISTNet Cyclic", "MDL"])
        >>> [row.label for row in table.rows], [column.label for column in table.columns]
        (['MDL', 'MDL-PCC'], ['MNISTNet Cyclic M', 'MNISTNet Cyclic FM'])
    """
    if not texts:
        return list(experiments)
    found = [
        _selected_table(one, texts) if isinstance(one, Table) else _selected_figure(one, texts) for one in experiments
    ]
    found = [one for one in found if one.all_cells]
    if not found:
        raise InputError(_no_cell(experiments, texts))
    return found


def _selected_table(table: Table, texts: Sequence[str]) -> Table:
    cells, second = (
        tuple(one for one in cells if one.matches(texts) and one.metric != "average_rank")
        for cells in (table.cells, table.second_readings)
    )
    rows, columns = {one.row for one in cells + second}, {one.column for one in cells + second}
    return replace(
        table,
        rows=tuple(one for one in table.rows if one.label in rows),
        columns=tuple(one for one in table.columns if one.label in columns),
        cells=cells,
        second_readings=second,
        footnotes=(_footnote(texts), *table.footnotes),
        statements=_selected_statements(table.statements, table.name, cells + second),
    )


def _selected_figure(figure: Figure, texts: Sequence[str]) -> Figure:
    panels = (
        replace(panel, series=tuple(one for line in panel.series if (one := _selected_series(line, texts)).points))
        for panel in figure.panels
    )
    part = replace(figure, panels=tuple(panel for panel in panels if panel.series))
    return replace(
        part,
        footnotes=(_footnote(texts), *figure.footnotes),
        statements=_selected_statements(figure.statements, figure.name, part.cells),
    )


def _footnote(texts: Sequence[str]) -> str:
    return (
        f"Only cells with {' and '.join(map(repr, texts))} in their labels are here: the best value is the best of "
        "these, and average ranks are left out."
    )


def _selected_statements(statements: Sequence[Statement], name: str, cells: Sequence[Cell]) -> tuple[Statement, ...]:
    """The statements of which a check is about selected cells alone."""
    known = {CellName(name, one.row, one.column) for one in cells}
    return tuple(one for one in statements if any(known.issuperset(check.cells()) for check in one.checks))


def _selected_series(line: Series, texts: Sequence[str]) -> Series:
    return replace(line, points=tuple(point for point in line.points if point.cell.matches(texts)))


def _no_cell(experiments: Sequence[Table | Figure], texts: Sequence[str]) -> str:
    cells = [cell for one in experiments for cell in one.all_cells]
    rows, columns = dict.fromkeys(one.row for one in cells), dict.fromkeys(one.column for one in cells)
    shown = [
        ", ".join([*list(labels)[:SHOWN_LABELS], *["..."][: len(labels) > SHOWN_LABELS]]) for labels in (rows, columns)
    ]
    wanted = " and ".join(map(repr, texts))
    return f"no cell's row and column contain {wanted}; rows are {shown[0]}; columns are {shown[1]}"
