"""A comparison of runs as Markdown and CSV, and as the tables and sentences that a terminal shows."""

import csv
import io
from collections.abc import Callable, Sequence

import numpy as np

from ctrobust.outcomes import Interval
from ctrobust.reporting.run_comparison import ComparedAttack, RunComparison, describe_group

CSV_COLUMNS = (
    "first", "second", "attack", "images", "first_runs", "second_runs", "first_accuracy", "first_spread",
    "second_accuracy", "second_spread", "difference", "examples_low", "examples_high", "seeds_low", "seeds_high",
    "p_value", "p_holm",
)  # fmt: skip


def comparison_tables(comparison: RunComparison) -> list[tuple[list[str], list[list[str]]]]:
    """One table for each group that is compared with the first: accuracies in percent, differences in points."""
    several = len(comparison.attacks) > 1
    tables = []
    for group in comparison.groups[1:]:
        rows = [one for one in comparison.attacks if one.second is group]
        seeds = any(one.values.over_seeds for one in rows)
        first = comparison.groups[0].label
        headers = ["attack", "images", first, group.label, f"{group.label} - {first}", "95% over examples"]
        headers += ["95% over seeds"] * seeds + ["p"] + ["p (Holm)"] * several
        tables.append((headers, [_row(one, seeds=seeds, several=several) for one in rows]))
    return [table for table in tables if table[1]]


def comparison_remarks(comparison: RunComparison) -> list[str]:
    """Sentences on how to read the tables, and what is not in them."""
    pooled = any(len(group.runs) > 1 for group in comparison.groups)
    remarks = [
        "Differences are in points, with 95% intervals over examples, for these networks. p is of McNemar's exact test"
        + (", pooled over seeds by random signs of each example's difference." if pooled else ".")
    ]
    if any(one.values.over_seeds for one in comparison.attacks):
        remarks.append(
            "The interval over seeds is for other seeds on these examples: Student's where both have the same seeds, "
            "else Welch's. It says whether the methods differ; the test says whether these networks do."
        )
    elif pooled or len(comparison.groups) == 2:
        remarks.append("The networks differ by chance too: several seeds of each give an interval over seeds.")
    if len(comparison.attacks) > 1:
        remarks.append(f"p (Holm) is corrected for the {len(comparison.attacks)} tests shown.")
    return [*remarks, *(f"Not compared: {reason}." for reason in comparison.left_out)]


def comparison_heading(comparison: RunComparison) -> list[str]:
    """What the groups are."""
    return [describe_group(group, comparison.groups[0]) for group in comparison.groups]


def comparison_markdown(comparison: RunComparison) -> str:
    """Lists of the groups and remarks, and the tables between them."""
    lines = [f"- {line}" for line in comparison_heading(comparison)]
    for headers, rows in comparison_tables(comparison):
        lines += ["", *("| " + " | ".join(row) + " |" for row in (headers, ["---"] * len(headers), *rows))]
    return "\n".join([*lines, "", *(f"- {remark}" for remark in comparison_remarks(comparison))]) + "\n"


def comparison_csv(comparison: RunComparison) -> str:
    """One line for each attack; accuracies and differences are shares."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for one in comparison.attacks:
        values, seeds = one.values, one.values.over_seeds
        numbers = [
            *_mean_spread(values.first), *_mean_spread(values.second), values.difference, values.over_examples.low,
            values.over_examples.high, *((seeds.low, seeds.high) if seeds else (None, None)), values.p_value,
            one.corrected,
        ]  # fmt: skip
        runs = [" ".join(run.path.name for run in group.runs) for group in (one.first, one.second)]
        texts = ["" if number is None else f"{number:.6g}" for number in numbers]
        writer.writerow([one.first.label, one.second.label, one.attack, values.examples, *runs, *texts])
    return buffer.getvalue()


COMPARISON_RENDERERS: dict[str, Callable[[RunComparison], str]] = {
    "markdown": comparison_markdown,
    "csv": comparison_csv,
}
"""Form -> function that writes it; `terminal` is drawn by the command."""


def _row(one: ComparedAttack, *, seeds: bool, several: bool) -> list[str]:
    values = one.values
    row = [
        "natural" if one.attack == "none" else one.attack,
        f"{values.examples:,}",
        _accuracy(values.first),
        _accuracy(values.second),
        f"{100 * values.difference:+.2f}",
        _interval(values.over_examples),
    ]
    if seeds:
        row.append(_interval(values.over_seeds) if values.over_seeds else "")
    return [*row, _p_value(values.p_value), *([_p_value(one.corrected)] if several else [])]


def _mean_spread(accuracies: Sequence[float]) -> tuple[float, float | None]:
    return float(np.mean(accuracies)), float(np.std(accuracies, ddof=1)) if len(accuracies) > 1 else None


def _accuracy(accuracies: Sequence[float]) -> str:
    mean, spread = _mean_spread(accuracies)
    return f"{100 * mean:.2f}" + ("" if spread is None else f" ± {100 * spread:.2f}")


def _interval(interval: Interval) -> str:
    return f"[{100 * interval.low:+.2f}, {100 * interval.high:+.2f}]"


def _p_value(value: float) -> str:
    return "< 1e-12" if value < 1e-12 else f"{value:.2g}"
