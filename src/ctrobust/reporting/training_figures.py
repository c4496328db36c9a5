"""Training curves from metrics.jsonl, with the epochs of catastrophic overfitting marked."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from ctrobust.reporting.page_views import FigureView, curve_table
from ctrobust.reporting.report_models import Model, labelled_networks

Rows = list[dict[str, Any]]

METRIC_TITLES: dict[str, str] = {
    "watched_clean_accuracy": "Accuracy on a training batch, no attack",
    "watched_one_step_accuracy": "Accuracy on a training batch under the recipe's one step",
    "watched_fgsm_accuracy": "Accuracy on a training batch under FGSM",
    "watched_accuracy": "Accuracy on a training batch under PGD-5",
    "validation_accuracy": "Accuracy on held-out images",
    "validation_robust_accuracy": "Accuracy on held-out images under PGD-10",
}
"""Field of metrics.jsonl -> what it measures."""


def training_figures(name: str, models: Sequence[Model]) -> Iterator[FigureView]:
    """The loss, and each accuracy that was measured after the epochs."""
    losses = _metric(models, "loss", 1.0)
    if losses:
        table = curve_table(f"{name}-loss-table", "Training loss", losses, "epoch", "epoch")
        caption = f"The mean loss of each epoch; losses of different recipes are not comparable.{_crosses(losses)}"
        yield FigureView(f"{name}-loss", "loss", "Training loss", caption, losses, table=table)
    for field, title in METRIC_TITLES.items():
        rows = _metric(models, field, 100.0)
        if rows:
            table = curve_table(f"{name}-{field}-table", f"{title}, in percent", rows, "epoch", "epoch")
            yield FigureView(
                f"{name}-{field}", "training", title, f"After each epoch.{_crosses(rows)}", rows, table=table
            )


def _crosses(rows: Rows) -> str:
    if not any(row["collapsed"] for row in rows):
        return ""
    return " Crosses mark epochs of catastrophic overfitting: one step no longer predicts what many steps do."


def _metric(models: Sequence[Model], field: str, factor: float) -> Rows:
    rows: Rows = []
    for network, label in labelled_networks(models):
        if network.weights != "last":
            continue
        for line in network.run.metrics:
            value = line.get(field)
            if isinstance(value, int | float) and math.isfinite(value) and isinstance(line.get("epoch"), int):
                collapsed = line.get("collapsed") is True
                row = {**label, "epoch": line["epoch"], "value": factor * value, "collapsed": collapsed}
                rows.append({**row, "event": "collapsed" if collapsed else ""})
    return rows
