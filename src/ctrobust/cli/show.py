"""`ctrobust show`: results on disk, read without data sets, weights or torch."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ctrobust import specs
from ctrobust.cli.console import print_line
from ctrobust.cli.tables import percent, print_results
from ctrobust.cli.verdict_output import print_verdict_lines
from ctrobust.errors import RunError
from ctrobust.specs.attack_text import format_number
from ctrobust.store import OutcomeSummary, RunDirectory, Store, StoredEvaluation, read_curves, read_verdicts

SHOW_EXAMPLE = "Example: ctrobust show runs, or ctrobust show runs/demo/mdl --json"


def show(
    paths: Annotated[list[Path], typer.Argument(help="Run directories, or directories that contain them.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print all records as JSON.")] = False,
) -> None:
    """Print the stored results of runs: accuracies under every attack with intervals, verdicts and curves."""
    runs = [run for path in paths for run in find_runs(path)]
    if as_json:
        print_line(json.dumps([_as_json(run) for run in runs], indent=2))
        return
    for run in runs:
        _print_run(run)


def find_runs(path: Path) -> list[RunDirectory]:
    """The run of a path, or all runs below it."""
    found = [RunDirectory(path)] if (path / "spec.json").exists() else list(Store(path).runs())
    if not found:
        raise RunError(f"no runs in {path}: a run directory has a spec.json")
    return found


def _print_run(run: RunDirectory) -> None:
    spec = run.read_any_spec()
    evaluations = run.evaluations()
    if isinstance(spec, specs.UserModelSpec):
        print_line(f"{run.path}: {spec.data}, {spec.factory}, trained elsewhere")
        for one in evaluations:
            if one.attack == "none":
                _print_accuracy(one.record.summary, one.record.spec.split)
    else:
        print_line(f"{run.path}: {spec.data}, {spec.model.name}, {specs.describe_recipe(spec)}, seed {spec.seed}")
        if not run.record_file.exists():
            print_line(f"  not finished: {len(run.read_metrics())} of {spec.epochs} epochs")
            return
        _print_accuracy(run.read_record().results, "test")
    attacks = [one for one in evaluations if one.attack != "none"]
    if attacks:
        print_results(["attack", "robust accuracy", "images"], [_row(one) for one in attacks])
    print_verdict_lines(read_verdicts(run))
    for curve in read_curves(run):
        radii = curve.record.spec.radii
        ends = f"{format_number(radii[0])} to {format_number(radii[-1])}"
        print_line(f"curve up to {curve.record.spec.attack}, eps {ends}: {curve.file}")


def _print_accuracy(results: OutcomeSummary, split: str) -> None:
    print_line(f"  {split} accuracy {percent(results.accuracy, results.accuracy_interval)} of {results.count:,}")


def _row(one: StoredEvaluation) -> list[str]:
    summary = one.record.summary
    return [one.attack, percent(summary.robust_accuracy, summary.interval), f"{summary.count:,}"]


def _as_json(run: RunDirectory) -> dict[str, Any]:
    return {
        "run": str(run.path),
        "spec": run.read_any_spec().model_dump(mode="json"),
        "record": run.read_record().model_dump(mode="json") if run.record_file.exists() else None,
        "evaluations": [one.record.model_dump(mode="json") for one in run.evaluations()],
        "verdicts": [one.verdict.to_dict() for one in read_verdicts(run)],
        "curves": [one.record.model_dump(mode="json") for one in read_curves(run)],
    }
