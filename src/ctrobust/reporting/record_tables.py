"""Tables of single records: every evaluation, and the results that are cells of the paper's tables."""

from collections.abc import Sequence

import numpy as np

from ctrobust.reporting.attack_titles import read_attack
from ctrobust.reporting.number_texts import interval_text, percent_text, points_text
from ctrobust.reporting.page_records import RecordBook, run_key
from ctrobust.reporting.page_tables import Swatch
from ctrobust.reporting.page_views import CellView, ColumnView, RowView, TableView
from ctrobust.reporting.printed_values import (
    PrintedValue,
    measured_percent,
    printed_for_evaluation,
    printed_for_training,
)
from ctrobust.reporting.report_models import Model, TrainedNetwork
from ctrobust.store import OutcomeSummary, StoredEvaluation


def evaluations_table(models: Sequence[Model], records: RecordBook, swatch: Swatch) -> TableView:
    """Every stored evaluation, one row each."""
    columns = [
        ColumnView("model", numeric=False), ColumnView("seed"), ColumnView("data", numeric=False),
        ColumnView("attack", numeric=False), ColumnView("radius"), ColumnView("images"), ColumnView("no attack"),
        ColumnView("under attack"), ColumnView("broken", "of the correct"), ColumnView("passes", "forward + backward"),
        ColumnView("paper"), ColumnView("difference", "ours − paper"),
    ]  # fmt: skip
    rows = [
        _evaluation_row(model, network, one, records, swatch(model))
        for model in models
        for network in model.networks
        for one in network.evaluations
    ]
    facets = {
        "data": list(dict.fromkeys(row.facets["data"] for row in rows)),
        "attack": sorted(dict.fromkeys(row.facets["attack"] for row in rows)),
    }
    caption = "Every stored evaluation, with 95% intervals."
    return TableView("evaluations", caption, columns, rows, facets, filterable=True)


def _evaluation_row(
    model: Model, network: TrainedNetwork, one: StoredEvaluation, records: RecordBook, swatch: int
) -> RowView:
    summary, attack, key = one.record.summary, read_attack(one.attack), (records.key(one),)
    spec = one.record.spec
    data = spec.data if spec.split == "test" else f"{spec.data} ({spec.split})"
    clean = CellView(
        percent_text(summary.accuracy), interval_text(summary.accuracy_interval), 100 * summary.accuracy, key,
        bar=100 * summary.accuracy,
    )  # fmt: skip
    under, broken = CellView("–"), CellView("–")
    if attack.eps:
        value = 100 * summary.robust_accuracy
        under = CellView(percent_text(summary.robust_accuracy), interval_text(summary.interval), value, key, bar=value)
        if summary.success_on_correct is not None:
            broken = CellView(percent_text(summary.success_on_correct), sort=100 * summary.success_on_correct)
    forwards, backwards = summary.forwards / summary.count, summary.backwards / summary.count
    passes = CellView(f"{forwards:.1f} + {backwards:.1f}", sort=forwards + backwards) if attack.eps else CellView("–")
    printed = printed_for_evaluation(network.run, network.weights, one.record)
    cells = [
        CellView(model.name, sort=model.name, swatch=swatch), CellView(str(network.seed), sort=float(network.seed)),
        CellView(data, sort=data), CellView(*attack.title_and_fields, sort=attack.title),
        CellView(attack.ball or "–", sort=attack.radius), CellView(f"{summary.count:,}", sort=float(summary.count)),
        clean, under, broken, passes, *_paper_cells(printed, summary),
    ]  # fmt: skip
    return RowView(cells, {"data": data, "attack": attack.title})


def _paper_cells(printed: Sequence[PrintedValue], summary: OutcomeSummary) -> list[CellView]:
    if not printed:
        return [CellView("–"), CellView("–")]
    first = printed[0]
    gap = measured_percent(first, summary) - first.value
    return [CellView(first.text, first.table, first.value), CellView(points_text(gap / 100), first.preset, gap)]


def paper_table(models: Sequence[Model], records: RecordBook, swatch: Swatch) -> TableView | None:
    """Results that are cells of the paper's tables; seeds of one model are averaged where the paper averages."""
    rows = []
    for model in models:
        found: dict[PrintedValue, list[tuple[float, str]]] = {}
        for network in model.networks:
            run = network.run
            if run.record is not None and network.weights == "last":
                for printed in printed_for_training(run):
                    found.setdefault(printed, []).append((measured_percent(printed, run.record.results), run_key(run)))
            for one in network.evaluations:
                for printed in printed_for_evaluation(run, network.weights, one.record):
                    value = measured_percent(printed, one.record.summary)
                    found.setdefault(printed, []).append((value, records.key(one)))
        rows += [_paper_row(model, printed, values, swatch(model)) for printed, values in found.items()]
    if not rows:
        return None
    columns = [
        ColumnView("model", numeric=False), ColumnView("cell of the paper", numeric=False),
        ColumnView("measured", numeric=False), ColumnView("paper"), ColumnView("ours"),
        ColumnView("difference", "ours − paper"), ColumnView("setting", numeric=False),
    ]  # fmt: skip
    caption = "Results whose settings are those of a cell of the paper's tables, in percent."
    return TableView("paper-values", caption, columns, rows, filterable=True)


def _paper_row(model: Model, printed: PrintedValue, values: Sequence[tuple[float, str]], swatch: int) -> RowView:
    numbers = [value for value, _ in values]
    mean = float(np.mean(numbers))
    spread = f" ± {float(np.std(numbers, ddof=1)):.2f}" if len(numbers) > 1 else ""
    seeds = f"{len(numbers)} seeds" if len(numbers) > 1 else "1 seed" if printed.several else ""
    setting = "the paper's" if printed.preset == "paper" else f"preset {printed.preset}: smaller than the paper's"
    return RowView(
        [
            CellView(model.name, sort=model.name, swatch=swatch),
            CellView(printed.table, printed.cell, f"{printed.table} {printed.cell}"),
            CellView(printed.metric.replace("_", " "), sort=printed.metric), CellView(printed.text, sort=printed.value),
            CellView(f"{mean:.2f}{spread}", seeds, mean, tuple(dict.fromkeys(key for _, key in values))),
            CellView(points_text((mean - printed.value) / 100), sort=mean - printed.value),
            CellView(setting, sort=setting),
        ]
    )  # fmt: skip
