"""What `ctrobust evaluate` and `ctrobust demo` print."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctrobust.cli.console import print_line, print_paragraph
from ctrobust.cli.report import report_command
from ctrobust.cli.tables import count_of, percent, print_results

if TYPE_CHECKING:
    from ctrobust.data import Dataset
    from ctrobust.execution import EvaluationRow
    from ctrobust.outcomes import Evaluation

RANKS_SHOWN = 3
SWEEP_SHOWN = (5, 9, 12, 15)
LEVELS_SHOWN = (0.5, 0.3, 0.1, 0.0)
AT_CHANCE = "means nothing: the accuracy does not differ from that of random guesses"


def at_chance(accuracy_low: float, classes: int) -> bool:
    """Whether the interval of the accuracy reaches down to the accuracy 1/C of random guesses."""
    return accuracy_low <= 1 / classes


def evaluation_table(run: Path, data: "Dataset", rows: "Sequence[EvaluationRow]") -> None:
    """Print one line per attack, and the statistics of the confidence threshold below them."""
    first = rows[0].evaluation
    unverified = "" if data.verified else ", unverified"
    print_line(f"{run} on {data.name} ({data.split}{unverified}), {len(first):,} images")
    print_line(f"accuracy {percent(first.accuracy, first.accuracy_interval)}")
    attacked = [row for row in rows if row.attack != "none"]
    if attacked:
        headers = (
            "attack", "robust accuracy", "success rate on all images", "success rate on correct images",
            "forward + backward passes per image", "seconds",
        )  # fmt: skip
        print_results(headers, [_attack_row(row) for row in attacked])
        print_paragraph("The success rate on all images counts images that are misclassified without an attack.")
        for row in attacked:
            for reason in row.left_out:
                print_paragraph(f"left out of {row.attack}: {reason}", "  ")
        _print_headlines(attacked)
    _print_threshold(first)
    if rows[0].file is not None:
        print_line(f"report: {report_command(run if run.is_dir() else rows[0].file.parents[1])}")


def _print_headlines(attacked: "Sequence[EvaluationRow]") -> None:
    """Print the worst case of each ball, which attack broke what alone, and the ranks of the classes reached."""
    from ctrobust import execution

    for row in attacked:
        if row.evaluation.broken_by is not None:
            broken = ", ".join(f"{count:,} by {attack}" for attack, count in row.evaluation.broken_by.items())
            print_paragraph(f"broken in {row.attack}, each attack on what those before it left: {broken}", "  ")
    for one in execution.headlines(attacked):
        worst = percent(one.worst.robust_accuracy, one.worst.interval)
        print_paragraph(f"worst case of {len(one.attacks)} attacks ({one.ball}): {worst}", "  ")
        alone = [f"{count:,} by {attack}" for attack, count in one.worst.alone.items() if count]
        print_paragraph(f"  broken by one attack alone: {', '.join(alone) or 'none'}", "    ")
    for row in attacked:
        ranks = execution.reached_ranks(row)
        if ranks:
            shown = ", ".join(f"{100 * share:.0f}% rank {rank}" for rank, share in list(ranks.items())[:RANKS_SHOWN])
            print_paragraph(f"class reached by {row.attack}, by its rank among the clean wrong classes: {shown}", "  ")


def _attack_row(row: "EvaluationRow") -> list[str]:
    one = row.evaluation
    on_correct = one.success_on_correct
    return [
        row.attack,
        percent(one.robust_accuracy, one.interval),
        f"{100 * one.attack_success_rate:.1f}%",
        "none correct" if on_correct is None else f"{100 * on_correct:.1f}%",
        f"{one.forwards.mean():.1f} + {one.backwards.mean():.1f}",
        "stored" if row.seconds is None else f"{row.seconds:.1f}",
    ]


def _print_threshold(clean: "Evaluation") -> None:
    statistics = clean.threshold
    classes = clean.clean_probabilities.shape[1]
    if at_chance(clean.accuracy_interval.low, classes):
        print_paragraph(f"The number of wrong categories below the confidence threshold 1/{classes - 1} {AT_CHANCE}.")
        return
    below = count_of(statistics.wrong_below, statistics.wrong_total)
    print_paragraph(f"confidence threshold 1/{classes - 1}: {below} wrong categories are below it")
    sweep = zip(statistics.sweep_thresholds, statistics.sweep_counts, strict=True)
    shown = [f"{count:,} below {level:.2g}" for i, (level, count) in enumerate(sweep) if i in SWEEP_SHOWN]
    print_paragraph(f"  wrong categories below lower thresholds: {', '.join(shown)}", "    ")
    if statistics.largest_wrong_confidence is not None:
        print_paragraph(f"  largest p_y among misclassified images: {statistics.largest_wrong_confidence:.4f}", "    ")
    above = [
        f"{100 * accuracy:.2f}% above {level:.2g}"
        for level, accuracy in zip(statistics.confidence_levels, statistics.accuracy_above, strict=True)
        if accuracy is not None and level in LEVELS_SHOWN
    ]
    print_paragraph(f"  accuracy of images with p_y above a level: {', '.join(above)}", "    ")


def evaluation_json(run: Path, data: "Dataset", rows: "Sequence[EvaluationRow]") -> dict[str, Any]:
    """Collect all figures as plain values."""
    from ctrobust import execution

    first = rows[0].evaluation.summary()
    return {
        "run": str(run),
        "data": {"name": data.name, "split": data.split, "verified": data.verified, "count": first["count"]},
        "accuracy": first["accuracy"],
        "accuracy_interval": first["accuracy_interval"],
        "threshold": first["threshold"],
        "worst_cases": _worst_cases_json(rows),
        "attacks": [
            {
                "attack": row.attack,
                "reached_ranks": execution.reached_ranks(row),
                **{k: v for k, v in row.evaluation.summary().items() if not k.startswith(("accuracy", "threshold"))},
                "broken_by": row.evaluation.broken_by,
                "left_out": list(row.left_out),
                **({"repeats": row.repeats} if row.repeats > 1 else {}),
                "seconds": row.seconds,
                "outcomes": None if row.file is None else str(row.file),
            }
            for row in rows
            if row.attack != "none"
        ],
    }


def _worst_cases_json(rows: "Sequence[EvaluationRow]") -> list[dict[str, Any]]:
    from ctrobust import execution

    return [
        {
            "ball": one.ball,
            "attacks": list(one.attacks),
            "robust_accuracy": one.worst.robust_accuracy,
            "interval": [one.worst.interval.low, one.worst.interval.high],
            "broken": dict(one.worst.broken),
            "broken_alone": dict(one.worst.alone),
        }
        for one in execution.headlines(rows)
    ]


def demo_table(rows: "Sequence[tuple[str, Sequence[EvaluationRow]]]", out: Path) -> None:
    """Print one line per network."""
    first = rows[0][1][0].evaluation
    radius = rows[0][1][0].attack.partition("eps=")[2]
    headers = [
        "network", "accuracy", "FGSM", "PGD-20", "S-PGD-20", f"APGD-CE, first {len(rows[0][1][-1].evaluation)}",
        f"wrong categories below 1/{first.clean_probabilities.shape[1] - 1}",
    ]  # fmt: skip
    print_line(f"digits, {len(first)} test images, attacks within {radius}; 95% intervals")
    print_results(headers, [_network_row(method, attacked) for method, attacked in rows])
    print_paragraph(f"run directories: {', '.join(str(out / method) for method, _ in rows)}", "  ")


def _network_row(method: str, attacked: "Sequence[EvaluationRow]") -> list[str]:
    clean = attacked[0].evaluation
    robust = [percent(one.evaluation.robust_accuracy, one.evaluation.interval) for one in attacked]
    below = count_of(clean.threshold.wrong_below, clean.threshold.wrong_total)
    if at_chance(clean.accuracy_interval.low, clean.clean_probabilities.shape[1]):
        below = "none: at chance"
    return [method, percent(clean.accuracy, clean.accuracy_interval), *robust, below]
