"""The value of each cell of a table or figure, computed from stored records and outcomes alone."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np

from ctrobust.experiments import Cell, Figure, Table, average_ranks
from ctrobust.specs import EvaluationJob, Job, required_training
from ctrobust.store import JobIndex, OutcomeSummary

EMBEDDED = "stored"
"""The remark of an embedding that is stored, which has no number."""


@dataclass(frozen=True)
class CellValue:
    """What is known of one cell.

    Attributes:
        value: the value in the paper's unit; None where it was not run.
        low, high: the 95% interval of a single proportion.
        spread: the sample standard deviation over several seeds.
        jobs_done, jobs: how many of the cell's jobs are stored.
        remark: why there is no value, such as "not run", "failed", "2 of 3 runs" or "not measured".
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    spread: float | None = None
    jobs_done: int = 0
    jobs: int = 0
    remark: str = ""

    @property
    def is_known(self) -> bool:
        """Whether there is a number, or an embedding."""
        return self.value is not None or self.remark == EMBEDDED


def cell_values(experiment: Table | Figure, index: JobIndex, failed: Collection[Job] = ()) -> list[CellValue]:
    """The value of every cell, in the order of `experiment.all_cells`; cells of `failed` jobs are marked."""
    values = [_value(cell, index, failed) for cell in experiment.all_cells]
    if isinstance(experiment, Table):
        ranked = _average_ranks(experiment, values)
        values = [
            ranked.get(cell.row, value) if cell.metric == "average_rank" else value
            for cell, value in zip(experiment.all_cells, values, strict=True)
        ]
    return values


def _value(cell: Cell, index: JobIndex, failed: Collection[Job]) -> CellValue:
    found = [_measure(cell, job, index) for job in cell.jobs]
    done = [one for one in found if one is not None]
    unknown = CellValue(None, jobs_done=len(done), jobs=len(cell.jobs))
    if len(done) < len(found):
        return replace(unknown, remark=_why_missing(cell, found, failed))
    if cell.metric == "average_rank":
        return unknown
    if cell.metric == "tsne":
        return replace(unknown, remark=EMBEDDED)
    numbers = [value for value, _ in done if value is not None]
    if len(numbers) < len(done):
        return replace(unknown, remark="not measured")
    if len(numbers) == 1:
        low, high = done[0][1] or (None, None)
        return replace(unknown, value=numbers[0], low=low, high=high)
    return replace(unknown, value=float(np.mean(numbers)), spread=float(np.std(numbers, ddof=1)))


Measured = tuple[float | None, tuple[float, float] | None]
"""A value, None where an older version did not record it, and its interval."""


def _why_missing(cell: Cell, found: list[Measured | None], failed: Collection[Job]) -> str:
    missing = [job for job, one in zip(cell.jobs, found, strict=True) if one is None]
    if any(job in failed or required_training(job) in failed for job in missing):
        return "failed"
    done = len(cell.jobs) - len(missing)
    return f"{done} of {len(cell.jobs)} runs" if done and cell.metric != "average_rank" else "not run"


def _measure(cell: Cell, job: Job, index: JobIndex) -> Measured | None:
    """The cell's metric for one job; None where the job is not done."""
    if isinstance(job, EvaluationJob):
        stored = index.evaluation(job)
        if stored is None:
            return None
        if cell.metric == "wrong_below" and cell.threshold is not None:
            probabilities, labels = stored.evaluation.clean_probabilities, stored.evaluation.labels
            wrong = probabilities[np.arange(probabilities.shape[1]) != labels[:, None]]
            return float((wrong < np.asarray(cell.threshold, wrong.dtype)).sum()), None
        return _from_summary(cell, stored.record.summary)
    if not index.is_done(job):
        return None
    record = index.record(job.training)
    if record is None or cell.metric in ("average_rank", "tsne"):
        return None, None
    if cell.metric == "minutes":
        seconds = record.cpu_seconds_per_epoch
        known = [one for one in seconds or () if one is not None]
        return (sum(known) / 60 if seconds and len(known) == len(seconds) else None), None
    return _from_summary(cell, record.results)


def _from_summary(cell: Cell, summary: OutcomeSummary) -> Measured:
    low, high = summary.interval
    match cell.metric:
        case "accuracy":
            return 100 * summary.accuracy, (100 * summary.accuracy_interval[0], 100 * summary.accuracy_interval[1])
        case "robust_accuracy":
            return 100 * summary.robust_accuracy, (100 * low, 100 * high)
        case "attack_success_rate":
            return 100 * summary.attack_success_rate, (100 * (1 - high), 100 * (1 - low))
        case "wrong_below":
            return float(summary.threshold.wrong_below), None
        case _:
            return None, None


def _average_ranks(table: Table, values: list[CellValue]) -> Mapping[str, CellValue]:
    """The average rank of each row, once every row has a value in every column; before, how many columns have."""
    by_cell = {(cell.row, cell.column): value for cell, value in zip(table.all_cells, values, strict=True)}
    rows = [row.label for row in table.rows]
    ranks = {cell.column for cell in table.cells if cell.metric == "average_rank"}
    columns = [
        [by_cell[row, column.label].value for row in rows]
        for column in table.columns
        if column.label not in ranks and all((row, column.label) in by_cell for row in rows)
    ]
    complete = [[value for value in column if value is not None] for column in columns if None not in column]
    if not complete:
        return {}
    if len(complete) < len(columns):  # ranks over a few columns are not comparable with the paper's
        return {row: CellValue(None, remark=f"{len(complete)} of {len(columns)} columns") for row in rows}
    found = average_ranks(list(zip(*complete, strict=True)))
    return {row: CellValue(rank) for row, rank in zip(rows, found, strict=True)}


def difference(value: CellValue, cell: Cell) -> float | None:
    """Our value minus the paper's; None for times, which are measured otherwise here."""
    paper = cell.paper
    if value.value is None or paper is None or cell.metric == "minutes" or math.isnan(value.value):
        return None
    return value.value - (paper if isinstance(paper, float) else paper.value)
