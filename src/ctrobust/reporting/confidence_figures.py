"""Figures about confidence: probabilities of the correct and the wrong classes, thresholds, and ranks."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ctrobust.reporting.outcome_digests import CONFIDENCE_EDGES, WRONG_EDGES, NetworkOutcomes
from ctrobust.reporting.page_views import FigureView, curve_table
from ctrobust.reporting.rankings import Outcomes
from ctrobust.reporting.report_models import Model, TrainedNetwork, labelled_networks
from ctrobust.reporting.report_sections import Section, evaluations_on
from ctrobust.store import OutcomeSummary

Rows = list[dict[str, Any]]

RANKS_SHOWN = 9


def confidence_figures(
    section: Section, name: str, models: Sequence[Model], outcomes: Outcomes
) -> Iterator[FigureView | None]:
    """All figures about confidence; None for one without data."""
    yield from _confidences(section, name, models, outcomes)
    yield _wrong(name, models, outcomes)
    yield from _threshold(section, name, models)
    yield _ranks(section, name, models, outcomes)


def _first_profiles(models: Sequence[Model], outcomes: Outcomes) -> Iterator[tuple[Model, NetworkOutcomes]]:
    for model in models:
        found = outcomes[model.networks[0]]
        if found.profile is not None:
            yield model, found


def _of_first_seed(models: Sequence[Model]) -> str:
    return " Of a model with several seeds the first is shown." if any(len(one.networks) > 1 for one in models) else ""


def _threshold_mark(classes: int) -> Rows:
    return [{"x": 1 / (classes - 1), "text": f"1/(C−1) = 1/{classes - 1}"}]


def _histogram(shares: Mapping[str, Any], edges: Any) -> Rows:
    """One row for each bin, drawn at its middle."""
    middles = np.sqrt(edges[1:] * edges[:-1]) if edges[0] > 0 else (edges[1:] + edges[:-1]) / 2
    bins = [f"{low:.3g} to {high:.3g}" for low, high in pairwise(edges)]
    return [
        {"model": model, "seed": "", "x": float(x), "bin": text, "value": 100 * float(share)}
        for model, found in shares.items()
        for x, text, share in zip(middles, bins, found, strict=True)
    ]


def _confidences(section: Section, name: str, models: Sequence[Model], outcomes: Outcomes) -> Iterator[FigureView]:
    profiles = [
        (model, found.profile) for model, found in _first_profiles(models, outcomes) if found.profile is not None
    ]
    if not profiles:
        return
    mark = _threshold_mark(profiles[0][1].classes)
    shares = {model.name: one.confidence for model, one in profiles}
    attacked = {model.name: one.attacked_confidence for model, one in profiles if one.attacked_confidence is not None}
    for key, title, found, under in (
        ("confidence", "Confidence without an attack", shares, ""),
        (
            "attacked",
            "Confidence under the strongest attack",
            attacked,
            " under the attack that breaks the most images",
        ),
    ):
        if not found or (key == "attacked" and section.headline is None):
            continue
        rows = _histogram(found, CONFIDENCE_EDGES)
        table = curve_table(f"{name}-{key}-table", f"{title}: images in percent", rows, "bin", "probability")
        caption = (
            f"How probable the correct class is{under}, in percent of the images on a square-root scale. The dashed "
            f"line is the theoretical confidence threshold.{_of_first_seed(models)}"
        )
        yield FigureView(f"{name}-{key}", "confidence", title, caption, rows, mark, table)


def _wrong(name: str, models: Sequence[Model], outcomes: Outcomes) -> FigureView | None:
    profiles = {model.name: one.profile for model, one in _first_profiles(models, outcomes) if one.profile is not None}
    if not profiles:
        return None
    rows = _histogram({model: one.wrong for model, one in profiles.items()}, WRONG_EDGES)
    mark = _threshold_mark(next(iter(profiles.values())).classes)
    table = curve_table(f"{name}-wrong-table", "Wrong classes in percent", rows, "bin", "probability")
    caption = (
        "How probable the wrong classes are without an attack, on a square-root scale. CTR is meant to push them below "
        f"the dashed line. The first bin also holds everything below 1e-8.{_of_first_seed(models)}"
    )
    return FigureView(f"{name}-wrong", "wrong", "Probability of wrong classes", caption, rows, mark, table)


def _threshold(section: Section, name: str, models: Sequence[Model]) -> Iterator[FigureView]:
    """The sweep of thresholds, and the accuracy above a level of confidence, on the most examples that are stored."""
    sweep: Rows = []
    above: Rows = []
    classes = 0
    for network, label in labelled_networks(models):
        summary = _largest_summary(section, network)
        if summary is None:
            continue
        found = summary.threshold
        classes = round(found.wrong_total / summary.count) + 1
        for x, count in zip(found.sweep_thresholds, found.sweep_counts, strict=True):
            sweep.append({**label, "x": x, "value": 100 * count / found.wrong_total})
        for x, count, accuracy in zip(found.confidence_levels, found.count_above, found.accuracy_above, strict=True):
            if accuracy is not None:
                above.append({**label, "x": x, "value": 100 * accuracy, "count": count})
    if not sweep:
        return
    mark = _threshold_mark(classes)
    shown = [{**row, "at": f"{row['x']:.3g}"} for row in sweep]
    table = curve_table(
        f"{name}-sweep-table", "Wrong classes below each threshold, in percent", shown, "at", "threshold"
    )
    caption = (
        "How many of the wrong classes are less probable than a threshold, from the theoretical 1/(C−1) downwards."
    )
    yield FigureView(f"{name}-sweep", "sweep", "Threshold sweep", caption, sweep, mark, table)
    shown = [{**row, "at": f"{row['x']:.3g}"} for row in above]
    table = curve_table(f"{name}-above-table", "Accuracy above each level, in percent", shown, "at", "level")
    caption = (
        "The accuracy among images whose correct class is more probable than a level. Above one half it is 100% by "
        "definition; the confidence threshold is the level from which it is nearly that."
    )
    yield FigureView(f"{name}-above", "above", "Accuracy above a confidence", caption, above, mark, table)


def _largest_summary(section: Section, network: TrainedNetwork) -> OutcomeSummary | None:
    record, run = network.run.record, network.run
    stored = [one.record.summary for one in evaluations_on(network, section.key)]
    if (
        record is not None
        and network.weights == "last"
        and run.spec.data == section.key.data
        and section.key.split == "test"
    ):
        stored.append(record.results)
    return max(stored, key=lambda one: one.count, default=None)


def _ranks(section: Section, name: str, models: Sequence[Model], outcomes: Outcomes) -> FigureView | None:
    rows: Rows = []
    for model, found in _first_profiles(models, outcomes):
        ranks = found.profile.ranks if found.profile is not None else np.zeros(0)
        if not (total := int(ranks.sum())):
            continue
        for rank, count in enumerate(ranks[:RANKS_SHOWN], start=1):
            rows.append(
                {"model": model.name, "seed": "", "rank": rank, "value": 100 * int(count) / total, "count": int(count)}
            )
    if not rows or section.headline is None:
        return None
    table = curve_table(
        f"{name}-rank-table",
        "Broken images by the clean rank of the class they reach, in percent",
        rows,
        "rank",
        "rank",
    )
    caption = (
        "Which class broken images are moved to: rank 1 is the wrong class that was the most probable before the "
        f"attack. Under the attack that breaks the most images.{_of_first_seed(models)}"
    )
    return FigureView(f"{name}-rank", "rank", "Where attacked images end", caption, rows, table=table)
