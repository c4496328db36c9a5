"""A figure of the paper: panels of series. The paper's source holds no images, so few points have a printed value."""

from dataclasses import dataclass

from ctrobust.experiments.cell import Cell, CellName
from ctrobust.experiments.statements import Statement


@dataclass(frozen=True)
class Point:
    """One point of a series; `x` is None where the panel has no axis, as for t-SNE."""

    x: float | None
    cell: Cell


@dataclass(frozen=True)
class Series:
    label: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Panel:
    title: str
    x_title: str
    y_title: str
    series: tuple[Series, ...]


@dataclass(frozen=True)
class Figure:
    """A figure of the paper under one preset.

    Attributes:
        name: "figure1" to "figure7", in the order of the source.
        preset: name of the preset that the jobs belong to.
        title: a caption in one sentence.
        panels: the panels, row by row.
        footnotes: readings that were chosen, and what the preset changes.
        statements: what the text states about the figure.
    """

    name: str
    preset: str
    title: str
    panels: tuple[Panel, ...]
    footnotes: tuple[str, ...] = ()
    statements: tuple[Statement, ...] = ()

    @property
    def number(self) -> int:
        return int(self.name.removeprefix("figure"))

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells of all points, panel by panel."""
        return tuple(point.cell for panel in self.panels for line in panel.series for point in line.points)

    @property
    def all_cells(self) -> tuple[Cell, ...]:
        return self.cells

    def names(self) -> dict[CellName, Cell]:
        """The cells by their names."""
        return {CellName(self.name, one.row, one.column): one for one in self.cells}


def point_name(panel: str, x: str) -> str:
    """The column of a point's cell.

    Example:
        >>> point_name("MNIST, FGSM", "0.1")
        'MNIST, FGSM: 0.1'
    """
    return f"{panel}: {x}"
