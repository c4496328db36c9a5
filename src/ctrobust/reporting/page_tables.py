"""The tables of the page."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from ctrobust.reporting.attack_titles import AttackTitle
from ctrobust.reporting.masking_views import VerdictView
from ctrobust.reporting.number_texts import interval_text, p_text, percent_text, points_text
from ctrobust.reporting.page_records import RecordBook, run_key
from ctrobust.reporting.page_views import CellView, ColumnView, RowView, TableView
from ctrobust.reporting.rankings import Outcomes, Ranking, Score
from ctrobust.reporting.report_models import Model
from ctrobust.reporting.report_sections import Condition, Section, attacks_of, attacks_under

NOT_RUN = CellView("–", "not run")

Swatch = Callable[[Model], int]
CellMaker = Callable[[Model], CellView]


def accuracy_cell(values: Sequence[float], interval: tuple[float, float] | None, records: tuple[str, ...]) -> CellView:
    """An accuracy with its interval, or the mean and spread over seeds with each seed's value."""
    mean = float(np.mean(values))
    small = interval_text(interval)
    text = percent_text(mean)
    if len(values) > 1:
        text += f" ± {100 * float(np.std(values, ddof=1)):.1f}"
        small = ", ".join(f"{100 * value:.1f}" for value in values)
    return CellView(text, small, sort=100 * mean, records=records, bar=100 * mean)


def results_table(
    section: Section, name: str, outcomes: Outcomes, clean: Ranking | None, records: RecordBook,
    verdicts: dict[Model, VerdictView], swatch: Swatch, links: Mapping[Model, str],
) -> TableView:  # fmt: skip
    """One row a model: accuracy without an attack, the worst cases, each attack, and the masking verdict."""
    attacks = attacks_of(section)
    conditions = {one for model in section.models for network in model.networks for one in outcomes[network].worst}
    scores = {score.model: score for score in clean.scores} if clean else {}
    columns = [
        ColumnView("model", numeric=False), ColumnView("masking", numeric=False),
        ColumnView("no attack", group=_images(clean)),
    ]  # fmt: skip
    cells_of: list[CellMaker] = [lambda model: _clean_cell(model, scores.get(model))]
    shown = _tabulated(section)
    for condition in shown:
        if condition in conditions:
            columns.append(ColumnView("worst case", group=_where(condition)))
            cells_of.append(partial(_worst_cell, section, condition, outcomes, records))
        for attack in [attack for one, attack in attacks if one == condition]:
            columns.append(ColumnView(*attack.title_and_fields, group=_where(condition)))
            cells_of.append(partial(_attack_cell, section, condition, attack, records))
    marked = _mark_best([[cell_of(model) for cell_of in cells_of] for model in section.models])
    body = []
    for model, cells in zip(section.models, marked, strict=True):
        verdict = verdicts[model]
        seeds = f"; {'seed' if len(model.seeds) == 1 else 'seeds'} {', '.join(map(str, model.seeds))}"
        below = f"{model.training}{seeds if model.seeds else ''}"
        first = CellView(model.name, below, sort=model.name, swatch=swatch(model), link=links.get(model, ""))
        masking = CellView(verdict.title, sort=verdict.title, colour=verdict.colour)
        body.append(RowView([first, masking, *cells]))
    caption = (
        "Images that stay correct, in percent, with 95% intervals; over several seeds the mean ± the standard "
        "deviation, and the value of each seed. Worst case: images that stay correct under every attack with the same "
        "radius and images. The best of a column is bold. A click on a number shows where it comes from."
        f"{' Attacks at several radii are drawn below.' if len(shown) < len(_conditions(section)) else ''}"
    )
    return TableView(name, caption, columns, body, filterable=True)


def _images(clean: Ranking | None) -> str:
    return "" if clean is None else f"{clean.leader.count:,} images"


def _where(condition: Condition) -> str:
    return f"within {condition.ball}, {condition.count:,} images"


def _conditions(section: Section) -> list[Condition]:
    """All conditions; the headline's comes first."""
    found = dict.fromkeys(condition for condition, _ in attacks_of(section))
    headline = None if section.headline is None else section.headline.condition
    return sorted(found, key=lambda one: one != headline)


def _tabulated(section: Section) -> list[Condition]:
    """The conditions that are columns: the headline's, and those with an attack that is no point of a curve."""
    radii: dict[tuple[str, str, int], set[str]] = {}
    for condition, attack in attacks_of(section):
        radii.setdefault((attack.title, condition.norm, condition.count), set()).add(condition.eps)
    lone = {
        condition
        for condition, attack in attacks_of(section)
        if len(radii[attack.title, condition.norm, condition.count]) == 1
    }
    headline = None if section.headline is None else section.headline.condition
    return [one for one in _conditions(section) if one == headline or one in lone]


def _clean_cell(model: Model, score: Score | None) -> CellView:
    if score is None:
        return NOT_RUN
    return accuracy_cell(score.values, score.interval, tuple(run_key(one.run) for one in model.networks))


def _worst_cell(
    section: Section, condition: Condition, outcomes: Outcomes, records: RecordBook, model: Model
) -> CellView:
    found = [outcomes[one].worst.get(condition) for one in model.networks]
    known = [one for one in found if one is not None]
    if len(known) < len(found):
        return NOT_RUN
    keys = tuple(
        records.key(one)
        for network in model.networks
        for one in attacks_under(network, section.key, condition).values()
    )
    interval = (known[0].interval.low, known[0].interval.high) if len(known) == 1 else None
    return accuracy_cell([one.robust_accuracy for one in known], interval, keys)


def _attack_cell(
    section: Section, condition: Condition, attack: AttackTitle, records: RecordBook, model: Model
) -> CellView:
    found = [attacks_under(network, section.key, condition).get(attack.text) for network in model.networks]
    known = [one for one in found if one is not None]
    if not known:
        return NOT_RUN
    summaries = [one.record.summary for one in known]
    interval = summaries[0].interval if len(summaries) == 1 else None
    return accuracy_cell([one.robust_accuracy for one in summaries], interval, tuple(map(records.key, known)))


def _mark_best(rows: Sequence[Sequence[CellView]]) -> list[list[CellView]]:
    columns = list(zip(*rows, strict=True))
    marked = []
    for column in columns:
        values = [cell.sort for cell in column if isinstance(cell.sort, float)]
        top = max(values) if len(set(values)) > 1 else None
        marked.append([replace(cell, best=top is not None and cell.sort == top) for cell in column])
    return [list(row) for row in zip(*marked, strict=True)]


def comparison_table(name: str, ranking: Ranking, what: str) -> TableView:
    """The best model against each other one."""
    best = ranking.leader.model.name
    rows = []
    for one in ranking.comparisons:
        first = one.pairs[0]
        several = len(one.pairs) > 1
        interval = f"[{points_text(first.low)}, {points_text(first.high)}]"
        lead = CellView(
            points_text(one.difference), f"in {one.ahead} of {len(one.pairs)} pairs" if several else interval,
            sort=100 * one.difference,
        )  # fmt: skip
        worst = max(pair.test.p_value for pair in one.pairs)
        here, there = sum(pair.test.c for pair in one.pairs), sum(pair.test.b for pair in one.pairs)
        answer = ("yes", "good") if one.decisive else ("no", "unknown")
        rows.append(
            RowView(
                [
                    CellView(one.other.name, sort=one.other.name), lead,
                    CellView(f"{here:,} : {there:,}", sort=float(here - there)),
                    CellView(p_text(worst).removeprefix("p = ").removeprefix("p "), sort=worst),
                    CellView(answer[0], sort=answer[0], colour=answer[1]),
                ]
            )
        )  # fmt: skip
    columns = [
        ColumnView("other model", numeric=False), ColumnView("lead (points)"),
        ColumnView("correct only", "here : there"), ColumnView("p", "McNemar"), ColumnView("decisive", numeric=False),
    ]  # fmt: skip
    caption = (
        f"{best} against each other model {what}, on the same {ranking.comparisons[0].count:,} images: its lead, how "
        "many images only it (here) or only the other (there) classifies correctly, and the largest p-value of all "
        f"pairs of seeds. Decisive: p < 0.05 / {ranking.comparisons[0].tests}, which accounts for choosing the best of "
        f"{len(ranking.scores)}, and an interval above zero."
    )
    return TableView(name, caption, columns, rows)
