"""The figures of a section, which show all its models."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ctrobust.reporting.attack_titles import NORM_TITLES, read_attack
from ctrobust.reporting.confidence_figures import confidence_figures
from ctrobust.reporting.number_texts import count_text, interval_text, percent_text
from ctrobust.reporting.page_views import FigureView, curve_table, plain_table
from ctrobust.reporting.rankings import Outcomes, Ranking
from ctrobust.reporting.report_models import Model, labelled_networks
from ctrobust.reporting.report_sections import Section, attacks_of, attacks_under, evaluations_on
from ctrobust.reporting.summary_words import score_text
from ctrobust.reporting.training_figures import training_figures
from ctrobust.store import OutcomeSummary

Rows = list[dict[str, Any]]


def section_figures(
    section: Section,
    name: str,
    models: Sequence[Model],
    outcomes: Outcomes,
    clean: Ranking | None,
    robust: Ranking | None,
) -> list[FigureView]:
    """All figures for which there are data, from the comparison to the training."""
    found = [
        _tradeoff(name, models, clean, robust),
        _profile(section, name, models),
        *_eps_curves(section, name, models),
        *confidence_figures(section, name, models, outcomes),
        *training_figures(name, models),
    ]
    figures = [one for one in found if one is not None]
    if sum(not one.wide for one in figures) % 2:  # the last one has no neighbour
        figures[-1] = replace(figures[-1], wide=True)
    return figures


def _tradeoff(name: str, models: Sequence[Model], clean: Ranking | None, robust: Ranking | None) -> FigureView | None:
    if clean is None or robust is None:
        return None
    by_model = {score.model: score for score in clean.scores}
    rows: Rows = []
    for score in robust.scores:
        if score.model not in models or score.model not in by_model:
            continue
        row: dict[str, Any] = {"model": score.model.name}
        for field, one in (("clean", by_model[score.model]), ("robust", score)):
            low, high = one.interval or (one.mean - (one.spread or 0), one.mean + (one.spread or 0))
            row |= {field: 100 * one.mean, f"{field}_low": 100 * low, f"{field}_high": 100 * high}
            row[f"{field}_text"] = score_text(one)
        rows.append(row)
    places = [float(row["clean"]) for row in rows] or [0.0]
    for row in rows:  # names of neighbours are written on different sides, and none leaves the chart
        row["left"] = row["clean"] > max(places) - (max(places) - min(places)) / 4
        others = [one for one in rows if one is not row]
        nearest = min(others, key=lambda one: abs(float(one["clean"]) - float(row["clean"])), default=row)
        row["below"] = nearest["robust"] > row["robust"]
    table = plain_table(
        f"{name}-tradeoff-table", "Accuracy without and with attack", ["model", "no attack", "worst attack"],
        [[row["model"], row["clean_text"], row["robust_text"]] for row in rows],
    )  # fmt: skip
    caption = (
        "Each point is a model: further right is more accurate, further up is harder to attack. Bars are 95% "
        "intervals, or one standard deviation over seeds."
    )
    return FigureView(f"{name}-tradeoff", "tradeoff", "Accuracy and robustness", caption, rows, table=table, wide=True)


def _outcome_row(summary: OutcomeSummary) -> dict[str, Any]:
    return {
        "value": 100 * summary.robust_accuracy,
        "low": 100 * summary.interval[0],
        "high": 100 * summary.interval[1],
        "text": f"{percent_text(summary.robust_accuracy)} {interval_text(summary.interval)}",
    }


def _profile(section: Section, name: str, models: Sequence[Model]) -> FigureView | None:
    if section.headline is None:
        return None
    condition = section.headline.condition
    wanted = [attack for one, attack in attacks_of(section) if one == condition]
    rows: Rows = []
    for network, label in labelled_networks(models):
        met = attacks_under(network, section.key, condition)
        first = next(iter(met.values()), None)
        if first is None:
            continue
        summary = first.record.summary
        clean = {
            "value": 100 * summary.accuracy,
            "text": f"{percent_text(summary.accuracy)} {interval_text(summary.accuracy_interval)}",
        }
        rows.append({**label, "attack": "no attack", **clean})
        rows += [
            {**label, "attack": one.title, **_outcome_row(met[one.text].record.summary)}
            for one in wanted
            if one.text in met
        ]
    if len(wanted) < 2 or not rows:
        return None
    table = curve_table(f"{name}-profile-table", "Images still correct, in percent", rows, "attack", "attack")
    caption = (
        f"The share of {count_text(condition.count, 'image')} that stay correct under each attack within "
        f"{condition.ball}. Stronger attacks are lower; a robust model falls little."
    )
    return FigureView(f"{name}-profile", "profile", "Attack by attack", caption, rows, table=table, wide=True)


def _eps_curves(section: Section, name: str, models: Sequence[Model]) -> Iterator[FigureView]:
    """One figure for each attack that was run at several radii."""
    families: dict[tuple[str, str, int], Rows] = {}
    radii: dict[tuple[str, str, int], set[str]] = {}
    for network, label in labelled_networks(models):
        begun = set()
        for one in evaluations_on(network, section.key):
            attack, summary = read_attack(one.attack), one.record.summary
            if not attack.eps:
                continue
            family = (attack.title, attack.norm, summary.count)
            if family not in begun:
                begun.add(family)
                clean = {"value": 100 * summary.accuracy, "text": percent_text(summary.accuracy)}
                low, high = summary.accuracy_interval
                families.setdefault(family, []).append(
                    {**label, "eps": 0.0, "at": "0", **clean, "low": 100 * low, "high": 100 * high}
                )
            row = {**label, "eps": attack.radius, "at": attack.eps, **_outcome_row(summary)}
            families[family].append(row)
            radii.setdefault(family, set()).add(attack.eps)
    for number, (family, rows) in enumerate(families.items()):
        if len(radii[family]) < 2:
            continue
        title, norm, count = family
        kind = "levels" if all(eps.endswith("/255") for eps in radii[family]) else "eps"
        if kind == "levels":
            rows[:] = [{**row, "eps": 255 * row["eps"]} for row in rows]
        rows.sort(key=lambda row: (row["model"], row["seed"], row["eps"]))
        ordered = sorted(rows, key=lambda row: float(row["eps"]))
        table = curve_table(
            f"{name}-eps-{number}-table", f"Images still correct under {title}, in percent", ordered, "at", "eps"
        )
        images = count_text(count, "image")
        caption = (
            f"The share of {images} that stay correct as the allowed change ({NORM_TITLES.get(norm, norm)}) grows; "
            "bands are 95% intervals."
        )
        yield FigureView(f"{name}-eps-{number}", kind, f"{title} of growing strength", caption, rows, table=table)
