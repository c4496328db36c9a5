"""A table of the paper: rows, columns and cells."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ctrobust.experiments.cell import Cell, CellName
from ctrobust.experiments.statements import Statement

Better = Literal["higher", "lower"]
BoldRule = Literal["best of the column", "best of the group", "chosen rows"]


@dataclass(frozen=True)
class Row:
    """A row: its unique label, the texts of its header cells, and the rows it is compared with, by group."""

    label: str
    headers: tuple[str, ...]
    group: str = ""


@dataclass(frozen=True)
class Column:
    """A column: its unique label, the texts of its header cells from the top, and which values are better.

    `better` is None for times, which the paper does not compare in bold.
    """

    label: str
    headers: tuple[str, ...]
    better: Better | None = "higher"


@dataclass(frozen=True)
class Table:
    """A table of the paper under one preset.

    Attributes:
        name: "table1" to "table9", in the order of the source.
        preset: name of the preset that the jobs belong to.
        title: a caption in one sentence.
        row_headers: titles of the header cells of a row, such as ("Methods", "beta", "gamma").
        rows: the rows in the paper's order.
        columns: the columns in the paper's order.
        cells: all cells, row by row.
        bold_rule: which values the paper prints in bold: the best of a column, the best of a group of rows in a
            column, or whole rows that the authors chose.
        footnotes: readings that were chosen, and what the preset changes.
        statements: what the text states about the table.
        second_readings: cells computed by another reading of the paper's setting, with the same printed values.
    """

    name: str
    preset: str
    title: str
    row_headers: tuple[str, ...]
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    cells: tuple[Cell, ...]
    bold_rule: BoldRule
    footnotes: tuple[str, ...] = ()
    statements: tuple[Statement, ...] = ()
    second_readings: tuple[Cell, ...] = ()

    @property
    def number(self) -> int:
        return int(self.name.removeprefix("table"))

    @property
    def all_cells(self) -> tuple[Cell, ...]:
        """The printed cells, then those of second readings."""
        return self.cells + self.second_readings

    def cell(self, row: str, column: str) -> Cell:
        return next(one for one in self.cells if (one.row, one.column) == (row, column))

    def names(self) -> dict[CellName, Cell]:
        """The cells by their names."""
        return {CellName(self.name, one.row, one.column): one for one in self.all_cells}


@dataclass(frozen=True)
class Printed:
    """A value as the paper prints it."""

    text: str
    bold: bool


def read_block(block: str) -> Iterator[tuple[tuple[str, ...], tuple[Printed, ...]]]:
    """Read transcribed lines `header; header | value *bold_value ...`; a bar may also separate values.

    Example:
        >>> list(read_block("TRADES w/o CTR; 1 | 86.67 *54.5"))
        [(('TRADES w/o CTR', '1'), (Printed(text='86.67', bold=False), Printed(text='54.5', bold=True)))]
    """
    for line in block.strip().splitlines():
        headers, _, values = line.partition("|")
        yield (
            tuple(text.strip() for text in headers.split(";")),
            tuple(Printed(text.lstrip("*"), text.startswith("*")) for text in values.replace("|", " ").split()),
        )
