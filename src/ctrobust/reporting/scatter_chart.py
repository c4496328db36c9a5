"""The t-SNE embedding of logits: one point an image, coloured by class, misclassified images as crosses."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from ctrobust.reporting.chart_theme import ACCENT, PALETTE
from ctrobust.reporting.curve_chart import centred_text
from ctrobust.store import Embedding

CLASS_COLOURS = (ACCENT, *PALETTE)
"""Colours of up to ten classes; with more classes colours repeat and there is no legend."""

ERROR_SHAPE = "M-1,-1L1,1M1,-1L-1,1"


def scatter_rows(found: Embedding, classes: Sequence[str]) -> list[dict[str, Any]]:
    """One row per image, with the names of its class and of the predicted one."""
    predictions = np.argmax(found.logits, axis=1)
    return [
        {
            "x": round(float(x), 3),
            "y": round(float(y), 3),
            "class": classes[int(label)],
            "predicted": classes[int(predicted)],
            "correct": "correct" if label == predicted else "misclassified",
        }
        for (x, y), label, predicted in zip(found.points, found.labels, predictions, strict=True)
    ]


def scatter_chart(
    title: str, rows: Sequence[Mapping[str, Any]], classes: Sequence[str], size: tuple[int, int]
) -> alt.LayerChart:
    """The chart of one embedding; without rows it says that it was not run."""
    if not rows:
        return alt.LayerChart(layer=[centred_text("not run", size)], width=size[0], height=size[1], title=title)
    wrong = sum(row["correct"] != "correct" for row in rows)
    heading = alt.TitleParams(title, subtitle=f"{len(rows):,} images, {wrong:,} misclassified (×)")
    axis = alt.Axis(labels=False, ticks=False, grid=False, title=None)
    legend = alt.Legend(title="Class", columns=5) if len(classes) <= len(CLASS_COLOURS) else None
    palette = [CLASS_COLOURS[number % len(CLASS_COLOURS)] for number in range(len(classes))]
    base = alt.Chart(alt.InlineData(values=list(rows))).encode(
        x=alt.X("x:Q", axis=axis, scale=alt.Scale(zero=False, padding=6)),
        y=alt.Y("y:Q", axis=axis, scale=alt.Scale(zero=False, padding=6)),
        color=alt.Color("class:N", scale=alt.Scale(domain=list(classes), range=palette), legend=legend),
        tooltip=[alt.Tooltip("class:N"), alt.Tooltip("predicted:N")],
    )
    points = base.mark_circle(size=9, opacity=0.75).transform_filter("datum.correct == 'correct'")
    errors = base.mark_point(shape=ERROR_SHAPE, size=16, strokeWidth=1.1, opacity=1).transform_filter(
        "datum.correct != 'correct'"
    )
    return alt.LayerChart(layer=[points, errors], width=size[0], height=size[1], title=heading)
