"""What a click on a number shows: spec, seed, versions, commit, environment and the command that repeats it."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ctrobust.reporting.attack_titles import read_attack
from ctrobust.reporting.number_texts import interval_text, percent_text
from ctrobust.reporting.repeat_commands import evaluate_command, train_command
from ctrobust.reporting.report_models import Model, TrainedNetwork
from ctrobust.reporting.report_runs import ReportedRun
from ctrobust.specs import TrainSpec, spec_hash
from ctrobust.store import OutcomeSummary, StoredEvaluation

Facts = list[list[str]]
"""Pairs of a title and a value."""


def run_key(run: ReportedRun) -> str:
    return f"r{run.number}"


class RecordBook:
    """The records of a page, each once; environments are shared.

    Attributes:
        runs, evaluations: by key.
        environments: in the order in which they were first met.
    """

    def __init__(self, models: Sequence[Model]) -> None:
        self.runs: dict[str, dict[str, Any]] = {}
        self.evaluations: dict[str, dict[str, Any]] = {}
        self.environments: list[Facts] = []
        self._keys: dict[Path, str] = {}
        for model in models:
            for network in model.networks:
                self._add(model, network)

    def key(self, one: StoredEvaluation) -> str:
        """The key of an evaluation."""
        return self._keys[one.file]

    def content(self) -> dict[str, Any]:
        return {"runs": self.runs, "evaluations": self.evaluations, "environments": self.environments}

    def _add(self, model: Model, network: TrainedNetwork) -> None:
        run = network.run
        if run_key(run) not in self.runs:
            self.runs[run_key(run)] = self._run(model, run)
        for one in network.evaluations:
            key = f"e{len(self.evaluations)}"
            self._keys[one.file] = key
            self.evaluations[key] = self._evaluation(network, one)

    def _environment(self, environment: dict[str, Any] | None) -> int | None:
        if environment is None:
            return None
        facts = _facts(environment)
        if facts not in self.environments:
            self.environments.append(facts)
        return self.environments.index(facts)

    def _run(self, model: Model, run: ReportedRun) -> dict[str, Any]:
        facts: Facts = [
            ["model", model.name], ["training", model.training],
            *([] if run.seed is None else [["seed", str(run.seed)]]),
            ["spec", spec_hash(run.spec)], ["directory", str(run.path)],
        ]  # fmt: skip
        record = run.record
        if record is not None:
            facts += [
                ["weights (SHA-256)", record.weights_sha256],
                ["data", f"{record.data.name}, {'verified' if record.data.verified else 'not verified'}: "
                         f"{record.data.train:,} training and {record.data.test:,} test images"],
                ["steps", f"{record.steps:,}"],
                ["seconds", f"{sum(record.seconds_per_epoch):,.0f} in {len(record.seconds_per_epoch)} epochs"],
                *_summary(record.results, attacked=False),
            ]  # fmt: skip
            facts += [["warning", warning] for warning in record.warnings]
        return {
            "title": run.name if run.seed is None else f"{run.name}, seed {run.seed}",
            "facts": facts,
            "spec": _facts(run.spec.model_dump(mode="json")),
            "environment": self._environment(None if record is None else record.environment),
            "command": train_command(run.spec, f"{run.path}-again") if isinstance(run.spec, TrainSpec) else "",
            "check": shlex.join(["ctrobust", "verify", str(run.path)]),
        }

    def _evaluation(self, network: TrainedNetwork, one: StoredEvaluation) -> dict[str, Any]:
        record, spec = one.record, one.record.spec
        facts: Facts = [
            ["attack", spec.attack], ["data", f"{spec.data}, {spec.split}"],
            ["examples", f"the first {spec.limit:,}" if spec.limit else f"all {record.summary.count:,}"],
            ["weights (SHA-256)", f"{spec.weights} ({network.weights})"], ["chunk", str(spec.chunk)],
            ["contents of the data", spec.contents or "as published"], ["revision of the attack", str(spec.revision)],
            *_summary(record.summary, attacked=spec.attack != "none"),
            ["file", str(one.file)], ["file (SHA-256)", record.arrays_sha256], ["spec", record.hash],
        ]  # fmt: skip
        optional = [
            ("seconds", None if record.seconds is None else f"{record.seconds:,.1f}"),
            ("processor seconds", None if record.cpu_seconds is None else f"{record.cpu_seconds:,.1f}"),
            ("fused copy used", None if record.fused is None else "yes" if record.fused else "no"),
            ("its largest logit difference", _number(record.fused_logit_difference)),
            ("passes averaged, as it draws at random", str(spec.repeats) if spec.repeats > 1 else None),
            ("left out", "; ".join(record.left_out) if record.left_out else None),
        ]
        facts += [[title, text] for title, text in optional if text is not None]
        return {
            "run": run_key(network.run),
            "title": f"{read_attack(spec.attack).title} on {network.run.name}",
            "facts": facts,
            "environment": self._environment(record.environment),
            "command": evaluate_command(network, record),
        }


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:.3g}"


def _summary(summary: OutcomeSummary, *, attacked: bool) -> Facts:
    facts = [
        [
            "accuracy",
            f"{percent_text(summary.accuracy)} {interval_text(summary.accuracy_interval)} of {summary.count:,}",
        ]
    ]
    if attacked:
        on_correct = summary.success_on_correct
        facts += [
            ["robust accuracy", f"{percent_text(summary.robust_accuracy)} {interval_text(summary.interval)}"],
            ["broken, of the correct ones", "none is correct" if on_correct is None else percent_text(on_correct)],
            ["largest distance", f"{summary.largest_distance:.6g}"],
            ["passes", f"{summary.forwards:,} forward, {summary.backwards:,} backward"],
            ["unconfirmed successes", f"{summary.unconfirmed:,}"],
        ]
    return facts


def _facts(fields: dict[str, Any], prefix: str = "") -> Facts:
    """Nested fields as pairs of a dotted name and a text."""
    found: Facts = []
    for key, value in fields.items():
        if isinstance(value, dict):
            found += _facts(value, f"{prefix}{key}.")
        else:
            shown = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            found.append([f"{prefix}{key}", "none" if value is None else shown])
    return found
