"""What templates render: tables and figures as plain values."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

LONGEST_TABLE = 26
"""A figure's table shows at most this many points of a curve, evenly chosen."""


@dataclass(frozen=True)
class CellView:
    """One cell of a table.

    Attributes:
        text: what is shown.
        small: shown below it, such as an interval.
        sort: what the column is sorted by; None sorts last.
        records: which records a click shows.
        bar: a share in percent that is drawn behind the number; None draws nothing.
        best: whether it is the best of its column.
        colour: of a badge; empty shows plain text.
        swatch: the number of a series, whose colour and shape are shown before the text; -1 shows none.
        link: where in the page the text leads; empty leads nowhere.
    """

    text: str
    small: str = ""
    sort: float | str | None = None
    records: tuple[str, ...] = ()
    bar: float | None = None
    best: bool = False
    colour: str = ""
    swatch: int = -1
    link: str = ""


@dataclass(frozen=True)
class ColumnView:
    """A column: its title, a second line, whether it holds numbers, and the header above it and its neighbours."""

    title: str
    small: str = ""
    numeric: bool = True
    group: str = ""


@dataclass(frozen=True)
class RowView:
    """A row; `facets` are the values that the filters of its table compare."""

    cells: Sequence[CellView]
    facets: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TableView:
    """A table.

    Attributes:
        name: unique in the page.
        caption: what it shows, in a sentence.
        columns, rows: the content; the first cell of a row is its header.
        facets: title of a filter -> its values.
        sortable: whether a click on a header sorts.
        filterable: whether rows can be filtered.
    """

    name: str
    caption: str
    columns: Sequence[ColumnView]
    rows: Sequence[RowView]
    facets: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sortable: bool = True
    filterable: bool = False

    @property
    def groups(self) -> list[tuple[str, int]]:
        """The headers above the columns with the number of columns below each; empty if there are none."""
        found = [(title, len(list(columns))) for title, columns in groupby(self.columns, key=lambda one: one.group)]
        return found if any(title for title, _ in found) else []


@dataclass(frozen=True)
class FigureView:
    """A chart with its text alternative.

    Attributes:
        name: unique in the page.
        kind: of the chart.
        title: what it shows.
        caption: how to read it, in a sentence or two.
        rows, marks: its data.
        table: the same values as a table.
        wide: whether it takes the whole width.
    """

    name: str
    kind: str
    title: str
    caption: str
    rows: Sequence[Mapping[str, Any]]
    marks: Sequence[Mapping[str, Any]] = ()
    table: TableView | None = None
    wide: bool = False

    @property
    def data(self) -> dict[str, Any]:
        """The data in columns, which take half the space."""
        return {"rows": _columns(self.rows), "marks": _columns(self.marks)}


def _columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {"fields": names, "values": [[_short(row.get(name)) for name in names] for row in rows]}


def _short(value: Any) -> Any:
    return float(f"{value:.5g}") if isinstance(value, float) else value


def curve_table(name: str, title: str, rows: Sequence[Mapping[str, Any]], x: str, x_title: str) -> TableView:
    """The points of curves: one row for each value of `x`, one column for each model and seed."""
    series = list(dict.fromkeys(_series(row) for row in rows))
    places = _thinned(list(dict.fromkeys(row[x] for row in rows)))
    found = {(row[x], _series(row)): row["value"] for row in rows}
    body = []
    for place in places:
        values = [found.get((place, one)) for one in series]
        body.append(RowView([CellView(str(place)), *(CellView("" if one is None else f"{one:.4g}") for one in values)]))
    return TableView(name, title, [ColumnView(x_title), *(ColumnView(one) for one in series)], body, sortable=False)


def _series(row: Mapping[str, Any]) -> str:
    seed = row.get("seed")
    return str(row["model"]) if seed in (None, "") else f"{row['model']}, seed {seed}"


def _thinned(places: list[Any]) -> list[Any]:
    if len(places) <= LONGEST_TABLE:
        return places
    step = (len(places) - 1) / (LONGEST_TABLE - 1)
    return [places[round(number * step)] for number in range(LONGEST_TABLE)]


def plain_table(name: str, caption: str, titles: Sequence[str], rows: Iterable[Sequence[str]]) -> TableView:
    """A table of texts."""
    body = [RowView([CellView(text) for text in row]) for row in rows]
    return TableView(name, caption, [ColumnView(title) for title in titles], body, sortable=False)
