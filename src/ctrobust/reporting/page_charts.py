"""The charts of the page: one Vega-Lite specification per kind, without data.

Every specification reads the data set `rows`, and some `marks`; the page gives both when it draws a figure, so that a
kind is stored once however many figures there are. Colours, dashes and shapes are fields of the rows: colours are CSS
variables, so that a chart follows the theme of the page without being drawn again. The parameter `hidden` lists the
models whose check box is off.
"""

from collections.abc import Callable
from typing import Any

import altair as alt

from ctrobust.reporting.chart_theme import THEME

PERCENT = alt.Scale(domain=[0, 100], nice=False)
HIDDEN = "indexof(hidden, datum.model) < 0"
HEIGHT = 250
DEEPEST = 0.48
"""The opacity of a full cell of a confusion matrix; numbers are readable on it in both themes."""

INK = "var(--ink)"

PAGE_FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, "Liberation Sans", sans-serif'
"""As in page.css; Vega measures texts and needs the names."""


def _rows() -> alt.Chart:
    return alt.Chart(alt.NamedData(name="rows")).transform_filter(HIDDEN)


def _marks() -> alt.Chart:
    return alt.Chart(alt.NamedData(name="marks"))


def _finished(*layers: alt.Chart, height: int = HEIGHT) -> alt.LayerChart:
    chart: alt.LayerChart = alt.layer(*layers).properties(width="container", height=height)  # type: ignore[assignment]
    return chart.add_params(alt.param(name="hidden", value=[]))


COLOUR = alt.Color("colour:N", scale=None)
FILL = alt.Fill("colour:N", scale=None)
DASH = alt.StrokeDash("dash:N", scale=None)
SHAPE = alt.Shape("shape:N", scale=None)


def _tooltip(*fields: tuple[str, str, str]) -> list[alt.Tooltip]:
    """Model and seed first, then fields with titles and formats."""
    shown = [alt.Tooltip("model:N"), alt.Tooltip("seed:N")]
    return shown + [alt.Tooltip(name, title=title, format=form) for name, title, form in fields]


def _curves(
    x: alt.X, y: alt.Y, tooltip: list[alt.Tooltip], *, points: bool = True, step: bool = False
) -> list[alt.Chart]:
    """A line for each model and seed, with points that can be hovered."""
    base = _rows().encode(x=x, y=y, detail=["model:N", "seed:N"])
    interpolate: Any = "step" if step else "linear"
    line = base.mark_line(strokeWidth=1.8, interpolate=interpolate, clip=True).encode(color=COLOUR, strokeDash=DASH)
    dots = base.mark_point(filled=True, size=34 if points else 60, opacity=1 if points else 0)
    return [line, dots.encode(color=COLOUR, shape=SHAPE, tooltip=tooltip)]


def _tradeoff() -> alt.LayerChart:
    """Accuracy without and with attack, one point a model."""
    tick = alt.Axis(tickCount=8, labelOverlap=True)
    x = alt.X("clean:Q", title="accuracy without an attack (%)", scale=alt.Scale(zero=False, padding=30), axis=tick)
    y = alt.Y("robust:Q", title="accuracy under the worst attack (%)", scale=alt.Scale(zero=True))
    base = _rows().encode(x=x, y=y, color=COLOUR)
    across = base.mark_rule(opacity=0.55).encode(x="clean_low:Q", x2="clean_high:Q")
    along = base.mark_rule(opacity=0.55).encode(y="robust_low:Q", y2="robust_high:Q")
    tooltip = [
        alt.Tooltip("model:N"), alt.Tooltip("clean_text:N", title="no attack"),
        alt.Tooltip("robust_text:N", title="worst attack"),
    ]  # fmt: skip
    dots = base.mark_point(filled=True, size=110, opacity=1).encode(shape=SHAPE, tooltip=tooltip)
    wide = alt.ExprRef("width < 480 ? 0 : 1")  # on a phone the legend has to do
    names = base.mark_text(
        align=alt.ExprRef("datum.left ? 'right' : 'left'"), dx=alt.ExprRef("datum.left ? -9 : 9"),
        dy=alt.ExprRef("datum.below ? 10 : -9"), fontSize=11.5, opacity=wide,
    )  # fmt: skip
    return _finished(across, along, dots, names.encode(text="model:N"), height=360)


def _profile() -> alt.LayerChart:
    """Accuracy under each attack."""
    x = alt.X("attack:N", title=None, sort=None, axis=alt.Axis(labelAngle=-28, labelLimit=150))
    y = alt.Y("value:Q", title="still correct (%)", scale=PERCENT)
    tooltip = _tooltip(("attack:N", "attack", ""), ("text:N", "still correct", ""))
    return _finished(*_curves(x, y, tooltip), height=330)


def _eps(title: str) -> Callable[[], alt.LayerChart]:
    def build() -> alt.LayerChart:
        axis = alt.Axis(tickCount=6, labelOverlap=True)
        x = alt.X("eps:Q", title=title, scale=alt.Scale(nice=False), axis=axis)
        y = alt.Y("value:Q", title="still correct (%)", scale=PERCENT)
        band = _rows().mark_area(opacity=0.14, clip=True).encode(
            x=x, y=alt.Y("low:Q", scale=PERCENT), y2="high:Q", fill=FILL, detail=["model:N", "seed:N"]
        )  # fmt: skip
        tooltip = _tooltip(("at:N", "eps", ""), ("text:N", "still correct", ""))
        return _finished(band, *_curves(x, y, tooltip))

    return build


def _training(field: str, title: str, scale: alt.Scale | None, form: str) -> Callable[[], alt.LayerChart]:
    def build() -> alt.LayerChart:
        x = alt.X("epoch:Q", title="epoch", axis=alt.Axis(tickMinStep=1, format="d"), scale=alt.Scale(zero=False))
        y = alt.Y("value:Q", title=title, scale=scale or alt.Scale(zero=False))
        tooltip = _tooltip(("epoch:Q", "epoch", "d"), ("value:Q", field, form))
        collapsed = _rows().transform_filter("datum.collapsed").mark_point(
            shape="M-1,-1L1,1M1,-1L-1,1", size=90, strokeWidth=2.4, opacity=1, stroke="var(--bad)"
        )  # fmt: skip
        return _finished(
            *_curves(x, y, tooltip), collapsed.encode(x=x, y=y, tooltip=[*tooltip, alt.Tooltip("event:N")])
        )

    return build


def _rule(x: str, *, before: bool = False, low: bool = False) -> list[alt.Chart]:
    """The theoretical confidence threshold, 1/(C-1); its name is before or after the line, and at the bottom if low."""
    line = _marks().mark_rule(strokeDash=[5, 3], strokeWidth=1.4, color=INK).encode(x=x)
    side: dict[str, Any] = {"align": "right", "dx": -5} if before else {"align": "left", "dx": 5}
    texts = _outlined_texts(baseline="top", dy=-18 if low else 9, fontSize=11, **side)
    y = alt.value("height") if low else alt.value(0)
    return [line, *(text.encode(x=x, y=y, text="text:N") for text in texts)]


def _outlined_texts(**look: Any) -> list[alt.Chart]:
    """Texts of the marks above an outline in the colour of the card, readable on lines and points."""
    return [_marks().mark_text(stroke="var(--card)", strokeWidth=4, **look), _marks().mark_text(color=INK, **look)]


def _confidence() -> alt.LayerChart:
    axis = alt.Axis(tickCount=5, labelOverlap=True)
    x = alt.X("x:Q", title="probability of the correct class", scale=alt.Scale(domain=[0, 1]), axis=axis)
    y = alt.Y("value:Q", title="images (%)", scale=alt.Scale(type="sqrt"), axis=alt.Axis(tickCount=6))
    tooltip = _tooltip(("bin:N", "probability", ""), ("value:Q", "images (%)", ".2f"))
    return _finished(*_curves(x, y, tooltip, points=False, step=True), *_rule("x:Q"))


def _wrong() -> alt.LayerChart:
    x = alt.X(
        "x:Q", title="probability of a wrong class, logarithmic",
        scale=alt.Scale(type="log", domain=[1e-8, 1]),
        axis=alt.Axis(format=".0e", values=[1e-8, 1e-6, 1e-4, 1e-2, 1]),
    )  # fmt: skip
    y = alt.Y("value:Q", title="wrong classes (%)", scale=alt.Scale(type="sqrt"), axis=alt.Axis(tickCount=6))
    tooltip = _tooltip(("bin:N", "probability", ""), ("value:Q", "wrong classes (%)", ".2f"))
    return _finished(*_curves(x, y, tooltip, points=False, step=True), *_rule("x:Q", before=True))


def _sweep() -> alt.LayerChart:
    axis = alt.Axis(format=".0e", tickCount=4, grid=False, labelOverlap=True)
    x = alt.X("x:Q", title="threshold, logarithmic", scale=alt.Scale(type="log", nice=False), axis=axis)
    y = alt.Y("value:Q", title="wrong classes below it (%)", scale=alt.Scale(zero=False))
    tooltip = _tooltip(("x:Q", "threshold", ".3g"), ("value:Q", "wrong classes below (%)", ".2f"))
    return _finished(*_curves(x, y, tooltip), *_rule("x:Q", before=True, low=True))


def _above() -> alt.LayerChart:
    axis = alt.Axis(tickCount=5, labelOverlap=True)
    x = alt.X("x:Q", title="level of confidence in the correct class", scale=alt.Scale(domain=[0, 0.9]), axis=axis)
    y = alt.Y("value:Q", title="accuracy above the level (%)", scale=alt.Scale(zero=False))
    tooltip = _tooltip(("x:Q", "level", ".3g"), ("value:Q", "accuracy (%)", ".2f"), ("count:Q", "images above", ",d"))
    return _finished(*_curves(x, y, tooltip), *_rule("x:Q", low=True))


def _rank() -> alt.LayerChart:
    x = alt.X("rank:O", title="clean rank of the class reached", axis=alt.Axis(labelAngle=0))
    y = alt.Y("value:Q", title="broken images (%)")
    tooltip = _tooltip(("rank:O", "rank", ""), ("value:Q", "broken images (%)", ".1f"), ("count:Q", "images", ",d"))
    return _finished(*_curves(x, y, tooltip))


def _confusion() -> alt.LayerChart:
    base = alt.Chart(alt.NamedData(name="rows"))
    axis = alt.Axis(labelLimit=90, labelOverlap=True, grid=False)
    x = alt.X("predicted:N", title="classified as", sort=None, axis=axis.copy())
    y = alt.Y("label:N", title="is", sort=None, axis=axis.copy())
    opacity = alt.Opacity("share:Q", scale=alt.Scale(domain=[0, 100], range=[0.03, DEEPEST]), legend=None)
    wrong = (
        alt.when("datum.label === datum.predicted").then(alt.value("var(--good)")).otherwise(alt.value("var(--bad)"))
    )
    tooltip = [
        alt.Tooltip("label:N", title="is"), alt.Tooltip("predicted:N", title="classified as"),
        alt.Tooltip("count:Q", title="images", format=",d"),
        alt.Tooltip("share:Q", title="of its class (%)", format=".1f"),
    ]  # fmt: skip
    cells = base.mark_rect().encode(x=x, y=y, opacity=opacity, fill=wrong, tooltip=tooltip)
    text = base.transform_filter("datum.number").mark_text(fontSize=10.5, fill=INK)
    return _finished(cells, text.encode(x=x, y=y, text="count:Q"), height=300)


def _fragile() -> alt.LayerChart:
    base = alt.Chart(alt.NamedData(name="rows"))
    y = alt.Y("class:N", title=None, sort=None, axis=alt.Axis(labelLimit=120, grid=False))
    tooltip = [
        alt.Tooltip("class:N"), alt.Tooltip("count:Q", title="images", format=",d"),
        alt.Tooltip("clean:Q", title="correct, no attack (%)", format=".1f"),
        alt.Tooltip("robust:Q", title="correct, worst attack (%)", format=".1f"),
    ]  # fmt: skip
    line = base.mark_rule(strokeWidth=2, color="var(--muted)").encode(x="robust:Q", x2="clean:Q", y=y)
    x = alt.X("robust:Q", title="still correct (%)", scale=PERCENT)
    under = base.mark_point(filled=True, size=70, opacity=1, color="var(--bad)").encode(x=x, y=y, tooltip=tooltip)
    clean = base.mark_point(filled=False, size=70, strokeWidth=2, opacity=1, color="var(--good)")
    return _finished(line, under, clean.encode(x="clean:Q", y=y, tooltip=tooltip), height=280)


def _tsne() -> alt.LayerChart:
    base = alt.Chart(alt.NamedData(name="rows"))
    axis = alt.Axis(labels=False, ticks=False, grid=False)
    x = alt.X("x:Q", axis=axis, title=None, scale=alt.Scale(zero=False, padding=8))
    y = alt.Y("y:Q", axis=axis, title=None, scale=alt.Scale(zero=False, padding=8))
    tooltip = [alt.Tooltip("label:N", title="is"), alt.Tooltip("predicted:N", title="classified as")]
    right = base.transform_filter("datum.correct").mark_circle(size=22, opacity=0.7)
    wrong = base.transform_filter("!datum.correct").mark_point(
        shape="M-1,-1L1,1M1,-1L-1,1", size=26, strokeWidth=1.5, opacity=1
    )  # fmt: skip
    names = [text.encode(x=x, y=y, text="text:N") for text in _outlined_texts(fontSize=15, fontWeight="bold")]
    return _finished(
        right.encode(x=x, y=y, color=COLOUR, tooltip=tooltip), wrong.encode(x=x, y=y, color=COLOUR, tooltip=tooltip),
        *names, height=420,
    )  # fmt: skip


CHARTS: dict[str, Callable[[], alt.LayerChart]] = {
    "tradeoff": _tradeoff,
    "profile": _profile,
    "eps": _eps("radius eps (1 is the whole brightness range)"),
    "levels": _eps("radius eps (of 255 levels of brightness)"),
    "loss": _training("loss", "training loss", None, ".4f"),
    "training": _training("accuracy (%)", "accuracy (%)", PERCENT, ".1f"),
    "confidence": _confidence,
    "wrong": _wrong,
    "sweep": _sweep,
    "above": _above,
    "rank": _rank,
    "confusion": _confusion,
    "fragile": _fragile,
    "tsne": _tsne,
}
"""Kind of chart -> function that builds it."""


def chart_specification(kind: str) -> dict[str, Any]:
    """The Vega-Lite specification of a kind, without data and configuration."""
    found: dict[str, Any] = CHARTS[kind]().to_dict()
    return {key: value for key, value in found.items() if key not in ("$schema", "config")}


def page_configuration() -> dict[str, Any]:
    """The theme of all charts in the colours of the page."""
    ink, muted, line = "var(--ink)", "var(--muted)", "var(--line)"
    axis = {
        **THEME["axis"], "labelColor": muted, "titleColor": muted, "gridColor": line, "tickColor": line,
        "labelFontSize": 11, "titleFontSize": 11.5, "labelFlush": False,
    }  # fmt: skip
    return {
        "aria": False,
        "autosize": {"type": "fit", "contains": "padding"},
        "axis": axis,
        "background": "transparent",
        "font": PAGE_FONT,
        "text": {"color": ink},
        "title": {"color": ink},
        "view": {"stroke": None},
    }
