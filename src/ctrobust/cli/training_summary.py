"""What `ctrobust train` prints about a finished run."""

import shlex
from pathlib import Path
from typing import Any

from ctrobust import specs
from ctrobust.cli.console import print_line, print_paragraph
from ctrobust.cli.evaluation_tables import AT_CHANCE, at_chance
from ctrobust.cli.field_options import fraction
from ctrobust.cli.report import report_command
from ctrobust.cli.tables import count_of, percent

SUGGESTED_EPS = 8 / 255
"""Radius of the suggested attack for a network that was trained without one."""


def training_summary(path: Path, spec: specs.TrainSpec, record: dict[str, Any]) -> None:
    """Print the results, warnings, and the commands to run next."""
    results, data = record["results"], record["data"]
    unverified = "" if data["verified"] else " (unverified)"
    epochs, seconds = len(record["seconds_per_epoch"]), sum(record["seconds_per_epoch"])
    print_paragraph(
        f"{path}: {data['name']}{unverified}, {data['train']:,} training images, "
        f"{epochs} epoch{'s' if epochs > 1 else ''} in {seconds:.1f} s",
        "  ",
    )
    print_paragraph(
        f"test accuracy {percent(results['accuracy'], results['accuracy_interval'])} of {data['test']:,}; "
        f"{_threshold(results)}",
        "  ",
    )
    for line in [*_collapses(record), *_best_epoch(path, record)]:
        print_paragraph(line, "  ")
    for warning in record.get("warnings", []):
        print_paragraph(f"warning: {warning}", "  ")
    print_line("next:")
    for command in next_commands(path, spec, record):
        print_line(f"  {command}")


def _threshold(results: dict[str, Any]) -> str:
    threshold = results["threshold"]
    classes = threshold["wrong_total"] // results["count"] + 1
    if at_chance(results["accuracy_interval"][0], classes):
        return f"the number of wrong categories below {threshold['threshold']:.4g} {AT_CHANCE}"
    below = count_of(threshold["wrong_below"], threshold["wrong_total"])
    return f"wrong categories below {threshold['threshold']:.4g}: {below}"


def _collapses(record: dict[str, Any]) -> list[str]:
    lines = []
    if collapses := record.get("collapses"):
        first, times = collapses[0], f", the first of {len(collapses)} such epochs" if len(collapses) > 1 else ""
        before = "" if first["before"] is None else f" ({100 * first['before']:.1f}% at best before)"
        lines.append(
            f"catastrophic overfitting in epoch {first['epoch']}{times}: accuracy on a training batch is "
            f"{100 * first['one_step']:.1f}% under one step and {100 * first['after']:.1f}% under PGD-5{before}"
        )
    if record.get("returned_to_epoch") is not None:
        lines.append(f"training stopped there; the weights are those of epoch {record['returned_to_epoch']}")
    return lines


def _best_epoch(path: Path, record: dict[str, Any]) -> list[str]:
    best = (record.get("validation") or {}).get("best")
    if not best:
        return []
    score = best.get("validation_robust_accuracy", best["validation_accuracy"])
    under = " under PGD-10" if "validation_robust_accuracy" in best else ""
    count, file = record["validation"]["count"], path / "checkpoint" / "best.safetensors"
    return [f"best epoch on {count:,} held-out images: {best['epoch']}, accuracy {100 * score:.1f}%{under}, in {file}"]


def next_commands(path: Path, spec: specs.TrainSpec, record: dict[str, Any]) -> list[str]:
    """The commands that attack the last and, if there are any, the best weights, and the one that makes the report.

    Data and networks of the user are named: a run does not choose the paths that are read and the code that is run.
    """
    eps = SUGGESTED_EPS if isinstance(spec.recipe, specs.NaturalSpec) else spec.recipe.eps
    attacks = ["--attack", "pgd", "--attack", "s-pgd", "--attack", "apgd", "--eps", fraction(eps)]
    weights = [path]
    if (record.get("validation") or {}).get("best"):
        weights.append(path / "checkpoint" / "best.safetensors")
    own = ["--data", spec.data] if ":" in spec.data else []
    own += ["--model", spec.model.name] if spec.model.is_user_network else []
    attacked = [shlex.join(["ctrobust", "evaluate", str(file), *own, *attacks]) for file in weights]
    return [*attacked, report_command(path)]
