"""Tables as LaTeX, with the rules of the booktabs package."""

from collections.abc import Sequence
from itertools import groupby

from ctrobust.reporting.grids import CellText, Grid, GridColumn

ESCAPES = {character: f"\\{character}" for character in "&%#_{}$"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "−": "$-$",
    "<": r"$<$",
    ">": r"$>$",
}
"""Character -> how LaTeX text has it."""


def latex_text(name: str, title: str, tables: Sequence[Grid], footnotes: Sequence[str]) -> str:
    r"""A float with a caption, one tabular for each grid, and the footnotes; it needs `\usepackage{booktabs}`."""
    lines = [r"% needs \usepackage{booktabs}", r"\begin{table*}", r"\centering", rf"\caption{{{escape_latex(title)}.}}"]
    lines += [rf"\label{{tab:{name}}}", r"\footnotesize"]
    for grid in tables:
        lines += [*([rf"\par\medskip {escape_latex(grid.title)}\par"] if grid.title else []), *_tabular(grid)]
    lines += [
        r"\par\medskip\raggedright",
        *(rf"{escape_latex(footnote)}\par" for footnote in footnotes),
        r"\end{table*}",
    ]
    return "\n".join(lines) + "\n"


def escape_latex(text: str) -> str:
    r"""Write characters that LaTeX reads as commands.

    Example:
        >>> print(escape_latex("50% ± 1_2"))
        50\% $\pm$ 1\_2
    """
    return "".join(ESCAPES.get(character, character) for character in text)


def _tabular(grid: Grid) -> list[str]:
    depth = max(len(column.headers) for column in grid.columns)
    body = []
    for row in grid.rows:
        cells = (grid.texts.get((row, column.label)) for column in grid.columns)
        body.append([escape_latex(row), *("" if one is None else _cell(one) for one in cells)])
    return [
        rf"\begin{{tabular}}{{l{'r' * len(grid.columns)}}}",
        r"\toprule",
        *(_header(grid, level, depth) for level in range(depth)),
        r"\midrule",
        *(" & ".join(row) + r" \\" for row in body),
        r"\bottomrule",
        r"\end{tabular}",
    ]


def _header(grid: Grid, level: int, depth: int) -> str:
    """One line of headers; neighbours of one text above the last line share a cell."""
    texts = [_header_texts(column, depth) for column in grid.columns]
    cells = [escape_latex(grid.corner) if level == depth - 1 else ""]
    if level == depth - 1:
        cells += [escape_latex(text[level]) for text in texts]
    else:
        for _, group in groupby(texts, key=lambda text: text[: level + 1]):
            members = list(group)
            cells.append(rf"\multicolumn{{{len(members)}}}{{c}}{{{escape_latex(members[0][level])}}}")
    return " & ".join(cells) + r" \\"


def _header_texts(column: GridColumn, depth: int) -> list[str]:
    texts = [*[""] * (depth - len(column.headers)), *column.headers]
    if column.ours != "ours":
        texts[-1] += f" ({column.ours}; paper {column.paper})"
    return texts


def _cell(one: CellText) -> str:
    ours = rf"\textbf{{{escape_latex(one.ours)}}}" if one.bold else escape_latex(one.ours)
    paper = rf"\textbf{{{escape_latex(one.paper)}}}" if one.paper_bold else escape_latex(one.paper)
    printed = ", ".join(filter(None, (paper, escape_latex(one.difference.replace("-", "−")))))
    interval = escape_latex(one.interval.replace("±", "± "))
    return " ".join(filter(None, (ours, interval, f"({printed})" if printed else "")))
