"""Compare every transcribed cell of the paper's nine tables with the paper's source.

    python benchmarks/check_transcription.py PAPER.tex

Values, bold type, row headers and column headers are compared. Exit code 1 and a list if anything differs.
"""

import argparse
import itertools
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from ctrobust.experiments import EXPERIMENTS, Table, experiment

COLUMN_TITLES = {"CW$_\\infty$": "CW", "\\beta": "beta", "\\gamma": "gamma"}


@dataclass(frozen=True)
class SourceRow:
    """A row of a tabular, as the source has it."""

    headers: tuple[str, ...]
    values: tuple[tuple[str, bool], ...]


def tabulars(source: str) -> list[str]:
    """The content of the tabular of each table environment."""
    environments = re.findall(r"\\begin\{table\*?\}.*?\\end\{table\*?\}", source, re.DOTALL)
    return [
        re.sub(r"\\begin\{tabular\}\[c\].*?\\end\{tabular\}", _flatten, text, flags=re.DOTALL) for text in environments
    ]


def _flatten(match: re.Match[str]) -> str:
    """A header broken into lines, as one line."""
    inner = re.sub(r"\\(begin|end)\{tabular\}(\[c\])?(\{@\{\}.@\{\}\})?", "", match[0])
    return re.sub(r"\s*\\\\\s*", " ", inner)


def plain(cell: str) -> str:
    """The text of a cell without commands."""
    cell = re.sub(r"~?\\cite\{[^}]*\}", "", cell)
    cell = re.sub(r"\\(cline\{[^}]*\}|hline)", "", cell)
    for _ in range(2):
        cell = re.sub(r"\\(multirow|multicolumn)\{\d+\}\{[^}]*\}\{((?:[^{}]|\{[^{}]*\})*)\}", r"\2", cell)
        cell = re.sub(r"\\textbf\{([^}]*)\}", r"\1", cell)
    cell = " ".join(cell.split())
    return COLUMN_TITLES.get(cell, COLUMN_TITLES.get(cell.strip("$"), cell))


def lines_of(tabular: str) -> list[list[str]]:
    """The lines of a tabular, each as its cells."""
    body = tabular[tabular.index("\\begin{tabular}") : tabular.index("\\end{tabular}")]
    return [line.split("&") for line in re.split(r"\\\\", body)[:-1]]


def has_values(cells: list[str], headers: int) -> bool:
    """Whether all cells after the headers are numbers."""
    texts = [plain(cell) for cell in cells[headers:]]
    return bool(texts) and all(re.fullmatch(r"[\d.]+(\+[\d.]+)?", text) for text in texts)


def source_rows(tabular: str, headers: int) -> list[SourceRow]:
    """The rows with values; an empty first header continues the one above."""
    rows, above = [], ""
    for cells in lines_of(tabular):
        if has_values(cells, headers):
            first, *rest = (plain(cell) for cell in cells[:headers])
            above = first or above
            rows.append(SourceRow((above, *rest), tuple((plain(cell), "\\textbf" in cell) for cell in cells[headers:])))
    return rows


def column_titles(tabular: str, headers: int) -> list[str]:
    """The titles in the last line above the values."""
    above = list(itertools.takewhile(lambda cells: not has_values(cells, headers), lines_of(tabular)))
    return [plain(cell) for cell in above[-1][headers:]]


def differences(table: Table, tabular: str) -> list[str]:
    count = len(table.row_headers)
    rows = source_rows(tabular, count)
    found = []
    titles = [column.headers[-1] for column in table.columns]
    printed_titles = [title.replace(" -AT", "-AT") for title in column_titles(tabular, count)]
    if [a for a, b in zip(titles, printed_titles, strict=False) if b and a != b] or len(titles) != len(printed_titles):
        found.append(f"{table.name}: columns {titles}, printed {printed_titles}")
    if len(rows) != len(table.rows):
        found.append(f"{table.name}: {len(table.rows)} rows, printed {len(rows)}")
    for row, source in zip(table.rows, rows, strict=False):
        if row.headers != source.headers:
            found.append(f"{table.name}: row {row.headers}, printed {source.headers}")
        cells = [cell for cell in table.cells if cell.row == row.label]
        if len(cells) != len(source.values):
            found.append(f"{table.name}, {row.label}: {len(cells)} cells, printed {len(source.values)}")
        for cell, (text, bold) in zip(cells, source.values, strict=False):
            if (cell.printed, cell.bold) != (text, bold):
                ours = f"{cell.printed}{' bold' if cell.bold else ''}"
                found.append(
                    f"{table.name}, {row.label}, {cell.column}: {ours}, printed {text}{' bold' if bold else ''}"
                )
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tex", type=Path)
    sources = tabulars(parser.parse_args().tex.read_text(encoding="utf-8"))
    tables = [table for table in map(experiment, EXPERIMENTS) if isinstance(table, Table)]
    found = [] if len(sources) == len(tables) else [f"{len(tables)} tables, printed {len(sources)}"]
    for table, source in zip(tables, sources, strict=False):
        wrong = differences(table, source)
        bold = sum(cell.bold for cell in table.cells)
        state = f"{len(wrong)} differences" if wrong else "as printed"
        print(f"{table.name}: {len(table.rows)} rows, {len(table.cells)} cells, {bold} bold: {state}")
        found += wrong
    print(*found, sep="\n", end="\n" if found else "")
    print(f"{sum(len(table.cells) for table in tables)} cells, {len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
