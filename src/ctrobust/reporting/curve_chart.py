"""Curves of a panel: a line for each series with its 95% intervals as a band, and the values that the paper prints."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import altair as alt

from ctrobust.experiments import Panel
from ctrobust.reporting.cell_values import CellValue
from ctrobust.reporting.chart_theme import DASHES, INK, MUTED, colours, is_accented, shapes

MANY = 6
"""With more series than this, bands are fainter and markers smaller; with more points, not each has a tick."""


@dataclass(frozen=True)
class SeriesName:
    """What a legend calls a series: one name by colour and shape, and where a figure has two, another by dashes."""

    colour: str
    dash: str = ""


@dataclass(frozen=True)
class CurveStyle:
    """What the panels of a figure share, so that one legend serves them all.

    Attributes:
        names: label of a series -> its names.
        colour_title, dash_title: titles of the legends.
        from_zero: whether the vertical axes begin at zero, as for accuracies that attacks reduce to zero.
    """

    names: Mapping[str, SeriesName]
    colour_title: str
    dash_title: str
    from_zero: bool

    @property
    def colour_names(self) -> list[str]:
        return list(dict.fromkeys(one.colour for one in self.names.values()))

    @property
    def dash_names(self) -> list[str]:
        return list(dict.fromkeys(one.dash for one in self.names.values() if one.dash))


Rows = list[dict[str, Any]]


def curve_rows(panel: Panel, values: Mapping[tuple[str, str], CellValue], style: CurveStyle) -> Rows:
    """One row for each point, also for those without a value."""
    rows = []
    for line in panel.series:
        known = [point for point in line.points if values[point.cell.row, point.cell.column].value is not None]
        for point in line.points:
            text = point.cell.column.removeprefix(f"{panel.title}: ")
            value, printed = values[point.cell.row, point.cell.column], point.cell.paper
            row = {
                "series": style.names[line.label].colour,
                "variant": style.names[line.label].dash,
                "x": _x(point.x, text),
                "at": text,
                "value": value.value,
                "low": value.low,
                "high": value.high,
                "paper": printed if isinstance(printed, float) else None,
                "lone": len(known) == 1,
                "state": "" if value.is_known else value.remark or "not run",
            }
            rows.append({key: round(one, 6) if isinstance(one, float) else one for key, one in row.items()})
    return rows


def _x(x: float | None, text: str) -> float:
    """The position of a point; strengths that are written as n/255 are drawn in that unit."""
    return float(text.removesuffix("/255")) if text.endswith("/255") else x or 0.0


def curve_chart(
    panel: Panel, rows: Rows, style: CurveStyle, size: tuple[int, int], *, x_title: bool = True, y_title: bool = True
) -> alt.LayerChart:
    """The chart of one panel; `x_title` and `y_title` say whether the axes have titles."""
    known = [row for row in rows if row["value"] is not None]
    state, *printed = _remarks(rows)
    note = "; ".join(filter(None, [state if known else "", *printed]))
    title = alt.TitleParams(panel.title, subtitle=note) if note else alt.TitleParams(panel.title)
    base = alt.Chart(alt.InlineData(values=rows)).encode(x=_x_axis(panel, rows, shown=x_title), color=_colour(style))
    y = _y_axis(panel, style, rows, shown=y_title)
    layers = [*_band(base, known, y, style), *_line(base, y, style), *_paper(base, rows, y)]
    if not known:
        layers.append(centred_text(state, size))
    return alt.LayerChart(layer=layers, width=size[0], height=size[1], title=title)


def centred_text(text: str, size: tuple[int, int]) -> alt.Chart:
    """A text in the middle of a panel without values."""
    base = alt.Chart(alt.InlineData(values=[{"message": text}]))
    mark = base.mark_text(fontSize=12, color=MUTED, fontStyle="italic")
    chart: alt.Chart = mark.encode(text="message:N", x=alt.value(size[0] / 2), y=alt.value(size[1] / 2))
    return chart


def _remarks(rows: Rows) -> list[str]:
    """How many curves lack all or some of their points, empty if none does, and what the diamonds are."""
    curves: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        curves.setdefault((row["series"], row["variant"]), []).append(row["state"])
    whole = [states for states in curves.values() if all(states)]
    part = [states for states in curves.values() if any(states) and not all(states)]
    failed = any(state == "failed" for states in curves.values() for state in states)
    state = "failed" if failed else "not run"
    counts = [f"{len(states)} {text}" for states, text in ((whole, state), (part, "incomplete")) if states]
    if len(whole) < len(curves):
        state = f"of {len(curves)} curves {', '.join(counts)}" if counts else ""
    return [state, *(["diamonds: printed in the paper"] if any(row["paper"] is not None for row in rows) else [])]


def _x_axis(panel: Panel, rows: Rows, *, shown: bool) -> alt.X:
    places = sorted({row["x"] for row in rows})
    title = f"{panel.x_title} (1/255)" if any(row["at"].endswith("/255") for row in rows) else panel.x_title
    axis = alt.Axis(grid=False, values=places) if len(places) <= MANY else alt.Axis(grid=False, tickCount=5)
    room = 0.04 * (places[-1] - places[0]) or 1.0
    return alt.X(
        "x:Q",
        title=title if shown else None,
        scale=alt.Scale(domain=[places[0] - room, places[-1] + room], nice=False, zero=False),
        axis=axis,
    )


def _y_axis(panel: Panel, style: CurveStyle, rows: Rows, *, shown: bool) -> alt.Y:
    title, known = panel.y_title if shown else None, any(row["value"] is not None for row in rows)
    if style.from_zero:
        drawn = [row[key] or 0 for row in rows for key in ("value", "high", "paper")] if known else [100]
        top = min(100, max(20, 20 * math.ceil(max(drawn) / 20)))
        return alt.Y("value:Q", title=title, scale=alt.Scale(domain=[0, top]), axis=alt.Axis(tickCount=5))
    axis = alt.Axis(tickCount=5) if known else alt.Axis(labels=False, ticks=False, grid=False)
    return alt.Y("value:Q", title=title, scale=alt.Scale(zero=False), axis=axis)


def _colour(style: CurveStyle) -> alt.Color:
    scale = colours(style.colour_names)
    return alt.Color("series:N", scale=_scale(scale), legend=alt.Legend(title=style.colour_title, columns=10))


def _scale(choices: Mapping[str, str]) -> alt.Scale:
    return alt.Scale(domain=list(choices), range=list(choices.values()))


def _band(base: alt.Chart, known: Rows, y: alt.Y, style: CurveStyle) -> list[alt.Chart]:
    """The intervals, of a single point as a bar; they are of proportions, so counts have none."""
    if not any(row["low"] is not None for row in known):
        return []
    opacity = 0.08 if len(style.names) > MANY else 0.15
    ends = base.encode(y=_of(y, "low:Q"), y2="high:Q", detail="variant:N")
    lone = ends.mark_rule(opacity=0.6).transform_filter("datum.lone")
    return [ends.mark_area(opacity=opacity, clip=True), *([lone] if any(row["lone"] for row in known) else [])]


def _of(y: alt.Y, field: str) -> alt.Y:
    """The same axis for another field."""
    copy = y.copy(deep=True)
    copy.shorthand = field
    return copy


def _line(base: alt.Chart, y: alt.Y, style: CurveStyle) -> list[alt.Chart]:
    shape = alt.Shape(
        "series:N", scale=_scale(shapes(style.colour_names)), legend=alt.Legend(title=style.colour_title, columns=10)
    )
    tooltip = [
        alt.Tooltip("series:N"), alt.Tooltip("variant:N"), alt.Tooltip("at:N"), alt.Tooltip("value:Q", format=",.2f"),
        alt.Tooltip("low:Q", format=",.2f"), alt.Tooltip("high:Q", format=",.2f"),
    ]  # fmt: skip
    accented = alt.FieldOneOfPredicate(field="series", oneOf=[one for one in style.colour_names if is_accented(one)])
    width = alt.when(accented).then(alt.value(2)).otherwise(alt.value(1.3))
    line = base.mark_line().encode(y=y, strokeWidth=width)
    if style.dash_names:
        dashes = alt.Scale(
            domain=style.dash_names, range=[DASHES[i % len(DASHES)] for i in range(len(style.dash_names))]
        )
        legend = alt.Legend(
            title=style.dash_title, symbolType="stroke", symbolSize=250, symbolStrokeColor=INK, symbolStrokeWidth=1.5
        )
        line = line.encode(strokeDash=alt.StrokeDash("variant:N", scale=dashes, legend=legend))
    size = 20 if len(style.names) > MANY else 30
    return [line, base.mark_point(filled=True, opacity=1, size=size).encode(y=y, shape=shape, tooltip=tooltip)]


def _paper(base: alt.Chart, rows: Rows, y: alt.Y) -> list[alt.Chart]:
    if all(row["paper"] is None for row in rows):
        return []
    mark = base.mark_point(shape="diamond", filled=False, size=110, strokeWidth=1.6)
    tooltip = [alt.Tooltip("series:N"), alt.Tooltip("variant:N"), alt.Tooltip("paper:Q", title="in the paper")]
    return [mark.encode(y=_of(y, "paper:Q"), tooltip=tooltip).transform_filter("isValid(datum.paper)")]
