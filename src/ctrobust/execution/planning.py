"""A plan: the unique jobs of tables and figures, what is stored of them, and the order in which the rest must run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ctrobust.experiments import Figure, MeanSpread, Table
from ctrobust.specs import EvaluationJob, Job, TrainingJob, required_training, spec_hash
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

    def as_json(self) -> dict[str, object]:
        """Cells with the hashes of their jobs, and the jobs."""
        missing = set(self.missing)
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
                    **job.model_dump(mode="json", exclude={"training"}),
                }
                for job in self.jobs
            ],
        }


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
    """A job in one line, for progress and logs.

    Example:
        >>> from ctrobust.specs import TrainSpec
        >>> describe_job(TrainingJob(training=TrainSpec()))
        'train digits mnistnet natural c7611c4bacd28e09'
    """
    spec = job.training
    name = f"{spec.data} {spec.model.name} {spec.recipe.name} {spec_hash(spec)}"
    if isinstance(job, TrainingJob):
        return f"train {name}"
    if isinstance(job, EvaluationJob):
        return f"attack {name} with {job.attack}"
    return f"{type(job).__name__.removesuffix('Job').lower()} of {name}"
