"""Tables of results that stay readable on any terminal: values are never split over lines."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ctrobust.cli.console import PLAIN_WIDTH, output, printable

if TYPE_CHECKING:
    from ctrobust.outcomes import Interval


def percent(share: float, interval: "Interval | Sequence[float]") -> str:
    """Write a share with its interval, as in `93.2% [91.0, 95.0]`."""
    low, high = interval if isinstance(interval, Sequence) else (interval.low, interval.high)
    return f"{100 * share:.1f}% [{100 * low:.1f}, {100 * high:.1f}]"


def count_of(part: int, whole: int) -> str:
    """Write a number of a number, as in `1,234 of 5,678`."""
    return f"{part:,} of {whole:,}"


def print_results(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; where it is too wide for the terminal its headers wrap, and then each row becomes a list."""
    console = output()
    rows = [[printable(cell) for cell in row] for row in rows]
    columns = list(zip(headers, *rows, strict=True))
    whole = [max(map(len, column)) for column in columns]
    least = [max(len(text) for text in [*header.split(), *cells]) for header, *cells in columns]
    for widths in (whole, least):
        table = _table(headers, rows, widths)
        unbounded = console.options.update_width(PLAIN_WIDTH)  # a measure never exceeds the width of its options
        if console.measure(table, options=unbounded).maximum <= console.width:
            console.print(table)
            return
    _print_lists(console, headers, rows)


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for number, (header, width) in enumerate(zip(headers, widths, strict=True)):
        table.add_column(header, width=width, justify="right" if number else "left")
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def _print_lists(console: Console, headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print each row as its name and, below it, one line per value."""
    width = max(map(len, headers[1:]))
    for name, *cells in rows:
        lines = [name, *(f"  {header:{width}}  {cell}" for header, cell in zip(headers[1:], cells, strict=True))]
        console.print("\n".join(lines), markup=False, soft_wrap=True)
