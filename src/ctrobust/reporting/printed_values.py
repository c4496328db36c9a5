"""Which stored results are cells of the paper's tables, and what the paper prints there."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from ctrobust.experiments import EXPERIMENTS, PRESETS, Cell, MeanSpread
from ctrobust.reporting.report_runs import ReportedRun
from ctrobust.specs import EvaluationJob, Job, TrainingJob, spec_hash
from ctrobust.store import EvaluationRecord, OutcomeSummary

COMPARED_PRESETS = ("paper", "laptop")


@dataclass(frozen=True)
class PrintedValue:
    """A value that the paper prints, in percent.

    Attributes:
        table: such as "table 1".
        cell: its row and column.
        metric: what is measured.
        preset: "paper" if the run has the paper's setting, "laptop" if it is smaller.
        text: as printed.
        value: as a number.
        several: whether the paper's value is a mean over seeds.
    """

    table: str
    cell: str
    metric: str
    preset: str
    text: str
    value: float
    several: bool


JobKey = tuple[str, str, str, int | None]
"""The hash of the training, the weights, the attack ("" for the training itself), and the number of examples."""


@lru_cache(maxsize=1)
def _printed() -> Mapping[JobKey, tuple[PrintedValue, ...]]:
    """All printed accuracies, robust accuracies and success rates; a setting of both presets is the paper's."""
    found: dict[JobKey, dict[tuple[str, str, str], PrintedValue]] = {}
    for preset in COMPARED_PRESETS:
        for name, plan in EXPERIMENTS.items():
            title = name.replace("table", "table ").replace("figure", "figure ")
            for cell in plan(PRESETS[preset]).all_cells:
                if cell.printed is None or cell.metric not in ("accuracy", "robust_accuracy", "attack_success_rate"):
                    continue
                value = _value(cell, title, preset)
                for job in cell.jobs:
                    if (key := _key(job)) is not None:
                        found.setdefault(key, {}).setdefault((title, cell.row, cell.column), value)
    return {key: tuple(values.values()) for key, values in found.items()}


def _value(cell: Cell, title: str, preset: str) -> PrintedValue:
    paper = cell.paper
    number = paper.value if isinstance(paper, MeanSpread) else float(paper or 0)
    text = str(cell.printed).replace("+", " ± ")
    place = f"{cell.row}, {cell.column}"
    return PrintedValue(title, place, cell.metric, preset, text, number, isinstance(paper, MeanSpread))


@lru_cache(maxsize=8192)
def _key(job: Job) -> JobKey | None:
    digest = spec_hash(job.training)
    if isinstance(job, TrainingJob):
        return digest, "last", "", None
    if isinstance(job, EvaluationJob) and job.data in (None, job.training.data) and job.split == "test":
        return digest, job.weights, job.attack, job.limit
    return None


def printed_for_training(run: ReportedRun) -> tuple[PrintedValue, ...]:
    """The cells that print the accuracy of a training."""
    return tuple(one for one in _printed().get((spec_hash(run.spec), "last", "", None), ()) if one.metric == "accuracy")


def printed_for_evaluation(run: ReportedRun, weights: str, record: EvaluationRecord) -> tuple[PrintedValue, ...]:
    """The cells that print the outcome of an attack."""
    spec = record.spec
    if (spec.data, spec.split) != (run.spec.data, "test"):
        return ()
    return _printed().get((spec_hash(run.spec), weights, spec.attack, spec.limit), ())


def measured_percent(printed: PrintedValue, summary: OutcomeSummary) -> float:
    """Our value of a printed one's metric, in percent."""
    found = {
        "accuracy": summary.accuracy,
        "robust_accuracy": summary.robust_accuracy,
        "attack_success_rate": summary.attack_success_rate,
    }
    return 100 * found[printed.metric]
