"""Figures of the paper as Vega-Lite charts, written as PNG, SVG and JSON from stored results."""

import json
import textwrap
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from ctrobust.experiments import Figure, Panel, Table
from ctrobust.experiments.figure1 import SERIES
from ctrobust.experiments.natural_runs import NETWORK_TITLES
from ctrobust.reporting.cell_values import CellValue, cell_values
from ctrobust.reporting.chart_theme import THEME
from ctrobust.reporting.curve_chart import CurveStyle, SeriesName, curve_chart, curve_rows
from ctrobust.reporting.footers import provenance
from ctrobust.reporting.scatter_chart import scatter_chart, scatter_rows
from ctrobust.specs import EmbeddingJob, Job
from ctrobust.store import JobIndex, read_embedding, write_atomic

PIXELS_PER_INCH = 220

LAYOUTS = {1: (1, (330, 220)), 2: (2, (260, 200)), 4: (2, (240, 170)), 6: (3, (190, 150)), 8: (4, (165, 140))}
"""Number of panels -> how many columns they have, and the width and height of each."""

AXIS_WIDTH = 40
TITLE_CHARACTER, SUBTITLE_CHARACTER = 7, 5
"""Pixels that an axis with its title, and a character of a title, take on average."""

Values = Mapping[tuple[str, str], CellValue]
"""The row and column of a cell -> its value."""


def figure_chart(figure: Figure, index: JobIndex, failed: Collection[Job] = ()) -> dict[str, Any]:
    """A figure as a Vega-Lite specification with its data inside; the same store gives the same specification."""
    cells = zip(figure.cells, cell_values(figure, index, failed), strict=True)
    values = {(cell.row, cell.column): value for cell, value in cells}
    embedded = any(cell.metric == "tsne" for cell in figure.cells)
    panels = _scatters(figure, index) if embedded else _curves(figure, values)
    columns, size = _layout(figure)
    title = _title(figure, index, columns * (size[0] + AXIS_WIDTH))
    chart = alt.concat(*panels, columns=columns, title=title).resolve_scale(x="independent", y="independent")
    spec: dict[str, Any] = chart.to_dict()
    return {**spec, "config": THEME, "description": " ".join([f"{figure.title}.", *figure.footnotes])}


def _title(figure: Figure, index: JobIndex, width: int) -> alt.TitleParams:
    """The caption, and below it what the values were computed from, in lines that the panels are as wide as."""
    facts = " ".join([f"Preset {figure.preset}.", *provenance(figure, index)])
    return alt.TitleParams(
        textwrap.wrap(figure.title, width // TITLE_CHARACTER),
        subtitle=textwrap.wrap(facts, width // SUBTITLE_CHARACTER),
        fontSize=12, offset=12, frame="bounds",
    )  # fmt: skip


def write_figures(
    figures: Iterable[Table | Figure], index: JobIndex, directory: Path, failed: Collection[Job] = ()
) -> list[Path]:
    """Write each figure as NAME.png, NAME.svg and NAME.json, and return the files; tables are passed over."""
    written = []
    for figure in figures:
        if not isinstance(figure, Figure):
            continue
        spec = figure_chart(figure, index, failed)
        contents = {
            "json": (json.dumps(spec, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode(),
            "svg": vl_convert.vegalite_to_svg(spec).encode(),
            "png": vl_convert.vegalite_to_png(spec, ppi=PIXELS_PER_INCH),
        }
        for ending, content in contents.items():
            file = directory / f"{figure.name}.{ending}"
            write_atomic(file, content)
            written.append(file)
    return written


def _layout(figure: Figure) -> tuple[int, tuple[int, int]]:
    return LAYOUTS.get(len(figure.panels), (3, (190, 150)))


def _curves(figure: Figure, values: Values) -> list[alt.LayerChart]:
    columns, size = _layout(figure)
    style = curve_style(figure)
    charts = []
    for number, panel in enumerate(figure.panels):
        below = figure.panels[number + columns] if number + columns < len(figure.panels) else None
        charts.append(
            curve_chart(
                panel, curve_rows(panel, values, style), style, size,
                x_title=below is None or _unit(below) != _unit(panel), y_title=number % columns == 0,
            )
        )  # fmt: skip
    return charts


def _unit(panel: Panel) -> tuple[str, bool]:
    """What the horizontal axis of a panel shows."""
    return panel.x_title, any(point.cell.column.endswith("/255") for line in panel.series for point in line.points)


def curve_style(figure: Figure) -> CurveStyle:
    """How a figure names its series: a network with a schedule, or a method with a network where there are several."""
    labels = list(dict.fromkeys(line.label for panel in figure.panels for line in panel.series))
    metrics = {cell.metric for cell in figure.cells}
    from_zero = metrics == {"robust_accuracy"}
    if set(labels) <= set(SERIES):
        names = {one: SeriesName(NETWORK_TITLES[SERIES[one][0]], SERIES[one][1].capitalize()) for one in labels}
        return CurveStyle(names, "Network", "Schedule", from_zero)
    split = {label: label.partition(" ")[::2] for label in labels}
    networks = {network for network, method in split.values() if method}
    if networks and networks <= set(NETWORK_TITLES.values()):
        several = len(networks) > 1
        names = {one: SeriesName(method, network if several else "") for one, (network, method) in split.items()}
        return CurveStyle(names, "Method", "Network", from_zero)
    title = "Model" if metrics == {"attack_success_rate"} else "Method"
    return CurveStyle({one: SeriesName(one) for one in labels}, title, "", from_zero)


def _scatters(figure: Figure, index: JobIndex) -> list[alt.LayerChart]:
    _, size = _layout(figure)
    charts = []
    for panel in figure.panels:
        rows: list[dict[str, Any]] = []
        classes: tuple[str, ...] = ()
        job = panel.series[0].points[0].cell.jobs[0]
        file = index.embedding(job) if isinstance(job, EmbeddingJob) else None
        record = index.record(job.training)
        if file is not None and record is not None:
            classes = record.data.classes
            rows = scatter_rows(read_embedding(file, len(classes)), classes)
        charts.append(scatter_chart(panel.title, rows, classes, (size[0], size[0])))
    return charts
