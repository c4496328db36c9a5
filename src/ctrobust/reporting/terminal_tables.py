"""Tables as plain text that fits a terminal: columns are spread over as many blocks as the width needs."""

import textwrap
from collections.abc import Callable, Sequence

from ctrobust.reporting.grids import CellText, Grid, GridColumn

GAP = "   "
"""Between two columns of a table; the parts of a column are one blank apart."""

TERMINAL_LEGEND = (
    "ours: our value; 95%: its interval, or the larger half of it after ±; sd: standard deviation over seeds after ±; "
    "paper: the paper's value; diff: ours minus the paper's."
)


def terminal_text(title: str, tables: Sequence[Grid], footnotes: Sequence[str], width: int) -> str:
    """Write tables and the footnotes below them in lines of at most `width` characters, if their labels allow it."""
    lines = textwrap.wrap(title, width)
    for grid in tables:
        lines += ["", *([grid.title, ""] if grid.title else []), *_grid_lines(grid, width)]
    for footnote in footnotes:
        lines += ["", *textwrap.wrap(footnote, width)] if footnote is footnotes[0] else textwrap.wrap(footnote, width)
    return "\n".join(lines) + "\n"


def _grid_lines(grid: Grid, width: int) -> list[str]:
    """The blocks of a grid, with whole intervals unless the short form needs fewer blocks."""
    whole, short = (_blocks(grid, width, margins) for margins in (lambda one: one.interval, lambda one: one.margin))
    blocks = whole if len(whole) <= len(short) else short
    lines: list[str] = []
    for block in blocks:
        lines += ["", *block] if lines else block
    return lines


def _blocks(grid: Grid, width: int, margin: Callable[[CellText], str]) -> list[list[str]]:
    depth = max(len(column.headers) for column in grid.columns)
    labels = _justified([grid.corner, *[""] * depth, "-", *grid.rows], right=False)
    columns = [_column_lines(grid, column, depth, margin) for column in grid.columns]
    blocks: list[list[list[str]]] = []
    used = 0
    for column in columns:
        size = len(GAP) + len(column[0])
        if not blocks or used + size > width:
            blocks.append([labels])
            used = len(labels[0])
        blocks[-1].append(column)
        used += size
    return [[_join(parts) for parts in zip(*block, strict=True)] for block in blocks]


def _join(cells: Sequence[str]) -> str:
    rule = all(set(part) <= {"-", " "} and "-" in part for part in cells)
    return ("-" * len(GAP)).join(part.replace(" ", "-") for part in cells) if rule else GAP.join(cells).rstrip()


def _column_lines(grid: Grid, column: GridColumn, depth: int, margin: Callable[[CellText], str]) -> list[str]:
    """The lines of one column, all of one width: its headers, the titles of its parts, a rule and a line a row."""
    texts = [grid.texts.get((row, column.label), CellText("")) for row in grid.rows]
    spread = any(one.spread for one in texts)
    parts = [
        [column.ours, *(f"{one.ours}{'*' if one.bold else ' '}" if one.known else one.ours for one in texts)],
        [("sd" if spread else "95%"), *map(margin, texts)],
        [column.paper, *(f"{one.paper}{'*' if one.paper_bold else ' '}" for one in texts)],
        ["diff", *(one.difference for one in texts)],
    ]
    kept = [part for part in parts if any(text.strip() for text in part[1:])] or parts[:1]
    body = [" ".join(line) for line in zip(*(_justified(part, right=True) for part in kept), strict=True)]
    headers = [*[""] * (depth - len(column.headers)), *column.headers]
    lines = _justified([*headers, *body], right=False)
    return [*lines[: depth + 1], "-" * len(lines[0]), *lines[depth + 1 :]]


def _justified(texts: Sequence[str], *, right: bool) -> list[str]:
    width = max(map(len, texts))
    return [("-" * width if text == "-" else text.rjust(width) if right else text.ljust(width)) for text in texts]
