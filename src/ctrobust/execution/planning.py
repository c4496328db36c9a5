"""A plan: the unique jobs of tables and figures, what is stored of them, and the order in which the rest must run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ctrobust.execution.expected_time import ExpectedTime
from ctrobust.experiments import Figure, MeanSpread, Table
from ctrobust.specs import EmbeddingJob, EvaluationJob, Job, TrainingJob, VerdictJob, required_training, spec_hash
from ctrobust.store import JobIndex


@dataclass(frozen=True)
class Plan:
    """What a command will do.

    Attributes:
        experiments: the tables and figures.
        jobs: every job once, each training before the jobs that need its weights.
        missing: the jobs whose results are not stored, in the same order.
    """

    experiments: tuple[Table | Figure, ...]
    jobs: tuple[Job, ...]
    missing: tuple[Job, ...]

    def count(self, kind: type[Job], jobs: Sequence[Job] | None = None) -> int:
        """How many jobs are of a kind."""
        return sum(isinstance(job, kind) for job in (self.jobs if jobs is None else jobs))

    def as_json(self, expected: ExpectedTime | None = None) -> dict[str, object]:
        """Cells with the hashes of their jobs, and the jobs; `seconds` is the expected time of a job, where known."""
        missing, seconds = set(self.missing), expected.seconds if expected is not None else {}
        return {
            "cells": [
                {
                    "experiment": one.name,
                    "row": cell.row,
                    "column": cell.column,
                    "metric": cell.metric,
                    "paper": cell.paper._asdict() if isinstance(cell.paper, MeanSpread) else cell.paper,
                    "jobs": [spec_hash(job) for job in cell.jobs],
                }
                for one in self.experiments
                for cell in one.all_cells
            ],
            "jobs": [
                {
                    "hash": spec_hash(job),
                    "kind": type(job).__name__,
                    "stored": job not in missing,
                    "training": spec_hash(job.training),
                    "seconds": seconds.get(job),
                    **job.model_dump(mode="json", exclude={"training"}),
                }
                for job in self.jobs
            ],
        }

    def lines(self, expected: ExpectedTime, workers: int) -> list[str]:
        """The plan in words: experiments, jobs of each kind, what is stored of them, and the expected time."""
        found = [f"{one.name} ({one.preset}): {one.title}" for one in self.experiments]
        found.append(f"cells: {sum(len(one.all_cells) for one in self.experiments):,}")
        for kind, title in JOB_TITLES.items():
            if self.count(kind) or kind in (TrainingJob, EvaluationJob):
                missing = self.count(kind, self.missing)
                found.append(f"{title}: {self.count(kind):,}, of which {missing:,} are not stored")
        return [*found, _time_line(expected, workers)]


JOB_TITLES: dict[type[Job], str] = {
    TrainingJob: "trainings",
    EvaluationJob: "evaluations",
    EmbeddingJob: "embeddings",
    VerdictJob: "masking verdicts",
}
"""Kind of job -> its plural."""


def _time_line(expected: ExpectedTime, workers: int) -> str:
    """The expected time, and how many jobs nothing is known about."""
    if not expected.seconds:
        return "expected time: none, everything is stored"
    unknown = [f"{n:,} {title}" for kind, title in JOB_TITLES.items() if (n := expected.unmeasured(kind))]
    if expected.unmeasured() == len(expected.seconds):
        return "expected time: not measured, the store has no finished jobs of these kinds"
    times = f"{format_duration(expected.total(1))} with 1 worker"
    if workers > 1:
        times += f", {format_duration(expected.total(workers))} with {workers}"
    return f"expected time: {times}" + (f"; not measured: {' and '.join(unknown)}" if unknown else "")


def format_duration(seconds: float) -> str:
    """A duration in the unit that fits it.

    Example:
        >>> [format_duration(seconds) for seconds in (42, 600, 9000, 300000)]
        ['42 s', '10 min', '2.5 h', '3.5 days']
    """
    for unit, size, below in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172800)):
        if seconds < below:
            return f"{seconds / size:.{0 if size < 3600 else 1}f} {unit}"
    return f"{seconds / 86400:.1f} days"


def make_plan(experiments: Iterable[Table | Figure], index: JobIndex) -> Plan:
    """Collect the jobs of all cells and the trainings they need."""
    wanted = tuple(experiments)
    jobs: dict[Job, None] = {}
    for one in wanted:
        for cell in one.all_cells:
            for job in cell.jobs:
                jobs.setdefault(required_training(job))
                jobs.setdefault(job)
    ordered = tuple(sorted(jobs, key=lambda job: not isinstance(job, TrainingJob)))
    return Plan(wanted, ordered, tuple(index.missing(ordered)))


def is_ready(job: Job, done: set[Job]) -> bool:
    """Whether the training that a job needs is done."""
    return isinstance(job, TrainingJob) or required_training(job) in done


def describe_job(job: Job) -> str:
    """A job in one line, for progress and logs; what tells it from its neighbours comes first.

    Example:
        >>> from ctrobust.specs import TrainSpec
        >>> describe_job(TrainingJob(training=TrainSpec()))
        'train digits mnistnet natural c7611c4bacd28e09'
        >>> describe_job(EvaluationJob(training=TrainSpec(), attack="fgsm:eps=0.1"))
        'attack with fgsm:eps=0.1: digits mnistnet natural c7611c4bacd28e09'
    """
    spec = job.training
    name = f"{spec.data} {spec.model.name} {spec.recipe.name} {spec_hash(spec)}"
    if isinstance(job, TrainingJob):
        return f"train {name}"
    if isinstance(job, EvaluationJob):
        return f"classify: {name}" if job.attack == "none" else f"attack with {job.attack}: {name}"
    return f"{type(job).__name__.removesuffix('Job').lower()} of {name}"
