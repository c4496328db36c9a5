"""The look of charts: a light theme, and colours and shapes that readers with colour-blindness can tell apart."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from ctrobust.experiments.natural_runs import TEN_METHODS

ACCENT = "#D55E00"
"""The colour of the paper's own method; it and the colours below that Okabe and Ito proposed are safe."""

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#333333", "#8C6D31", "#999999", "#7A4FBF")

SHAPES = ("square", "triangle-up", "triangle-down", "cross", "triangle-right", "triangle-left")
ACCENT_SHAPE = "circle"

DASHES = ([1, 0], [4, 2.5], [1.5, 1.5], [6, 2, 1, 2])

FONT = "Helvetica, Arial, Liberation Sans, sans-serif"
INK, MUTED, GRID = "#222222", "#666666", "#E5E5E5"

THEME: dict[str, Any] = {
    "background": "white",
    "font": FONT,
    "view": {"stroke": "#BBBBBB", "strokeWidth": 0.8},
    "axis": {
        "labelFontSize": 10, "titleFontSize": 11, "titleFontWeight": "normal", "labelColor": INK, "titleColor": INK,
        "gridColor": GRID, "gridWidth": 0.7, "domain": False, "tickColor": "#BBBBBB", "tickSize": 3, "titlePadding": 5,
    },
    "title": {
        "anchor": "start", "frame": "group", "fontSize": 11, "fontWeight": "bold", "color": INK,
        "subtitleFontSize": 9.5, "subtitleColor": MUTED, "subtitlePadding": 3, "offset": 5,
    },
    "legend": {
        "labelFontSize": 10.5, "titleFontSize": 10.5, "titleFontWeight": "normal", "titleColor": MUTED,
        "labelColor": INK, "orient": "bottom", "direction": "horizontal", "symbolSize": 60, "symbolOpacity": 1,
        "columnPadding": 14, "titleOrient": "left", "rowPadding": 4,
        "layout": {"bottom": {"anchor": "start", "direction": "horizontal", "center": True, "margin": 24}},
    },
    "concat": {"spacing": 16},
}  # fmt: skip
"""The configuration of every chart."""


def is_accented(name: str) -> bool:
    """Whether a series is the paper's own method."""
    return name == "MDL" or name.endswith("+MDL")


Choice = TypeVar("Choice")


def _choose(names: Iterable[str], choices: Sequence[Choice], accent: Choice) -> dict[str, Choice]:
    """A choice for each name: a method of the paper has the same in every figure, other names have them in order."""
    found: dict[str, Choice] = {}
    for name in dict.fromkeys(names):
        number = TEN_METHODS.index(name) if name in TEN_METHODS else len(found)
        found[name] = accent if is_accented(name) else choices[number % len(choices)]
    return found


def colours(names: Iterable[str]) -> Mapping[str, str]:
    """A colour for each name; the paper's own method has the accent.

    Example:
        >>> colours(["DO", "MDL", "MSD"])
        {'DO': '#0072B2', 'MDL': '#D55E00', 'MSD': '#CC79A7'}
    """
    return _choose(names, PALETTE, ACCENT)


def shapes(names: Iterable[str]) -> Mapping[str, str]:
    """A shape for each name."""
    return _choose(names, SHAPES, ACCENT_SHAPE)
