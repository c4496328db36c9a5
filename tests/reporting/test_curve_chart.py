"""Curves of a panel."""

from collections.abc import Sequence
from typing import Any

from ctrobust.experiments import Panel
from ctrobust.reporting import CellValue, cell_values
from ctrobust.reporting.curve_chart import curve_chart, curve_rows
from ctrobust.reporting.figures import curve_style
from ctrobust.store import JobIndex
from tests.reporting.stored import COMMITTED, stored_figure

FIGURE = stored_figure()
STYLE = curve_style(FIGURE)
VALUES = {
    (cell.row, cell.column): value
    for cell, value in zip(FIGURE.cells, cell_values(FIGURE, JobIndex(COMMITTED)), strict=True)
}


def drawn(panel: Panel, *, without: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
    values = {**VALUES, **dict.fromkeys(without, CellValue(None, remark="not run"))}
    spec: dict[str, Any] = curve_chart(panel, curve_rows(panel, values, STYLE), STYLE, (200, 100)).to_dict()
    return spec


def marks(spec: dict[str, Any]) -> list[str]:
    return [layer["mark"]["type"] for layer in spec["layer"]]


def test_rows_have_the_values_of_the_cells_in_the_unit_of_the_axis() -> None:
    rows = curve_rows(FIGURE.panels[0], VALUES, STYLE)
    first = VALUES["VGG16 DO", "stored: 1/255"]
    assert [row["x"] for row in rows] == [1.0, 8.0, 1.0, 8.0]
    assert (rows[0]["value"], rows[0]["low"], rows[0]["high"]) == (
        first.value, round(first.low or 0, 6), round(first.high or 0, 6)
    )  # fmt: skip
    assert [row["paper"] for row in rows] == [None, None, None, 61.92]


def test_curves_have_bands_lines_points_and_the_printed_values() -> None:
    spec = drawn(FIGURE.panels[0])
    assert marks(spec) == ["area", "line", "point", "point"]
    assert spec["layer"][0]["encoding"]["y2"] == {"field": "high"}
    assert spec["layer"][1]["encoding"]["y"]["title"] == "robust accuracy (%)"
    assert spec["layer"][1]["encoding"]["x"]["title"] == "eps (1/255)"
    assert spec["title"]["subtitle"] == "diamonds: printed in the paper"


def test_a_panel_that_was_not_run_says_so_and_keeps_its_axes() -> None:
    spec = drawn(FIGURE.panels[1])
    assert marks(spec)[-1] == "text"
    assert "area" not in marks(spec)
    messages = [row["message"] for rows in spec["datasets"].values() for row in rows if "message" in row]
    assert messages == ["not run"]
    assert spec["layer"][0]["encoding"]["x"]["scale"]["domain"] == [0.72, 8.28]


def test_missing_and_incomplete_curves_are_counted() -> None:
    whole = [("VGG16 DO", "stored: 1/255"), ("VGG16 DO", "stored: 8/255")]
    assert drawn(FIGURE.panels[0], without=whole)["title"]["subtitle"].startswith("of 2 curves 1 not run;")
    spec = drawn(FIGURE.panels[0], without=whole[1:])
    assert spec["title"]["subtitle"].startswith("of 2 curves 1 incomplete;")
    assert marks(spec)[:2] == ["area", "rule"]  # the interval of a single point is a bar
