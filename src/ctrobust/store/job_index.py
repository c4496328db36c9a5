"""Which jobs a store already holds: a snapshot of its runs and evaluations, found by hash."""

import hashlib
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from ctrobust.specs import (
    EmbeddingJob,
    EvaluationJob,
    Job,
    TrainingJob,
    TrainSpec,
    VerdictJob,
    WeightsJob,
    attack_revision,
    required_training,
    spec_hash,
)
from ctrobust.store.outcome_files import StoredEvaluation
from ctrobust.store.records import RunRecord
from ctrobust.store.run_directory import RunDirectory
from ctrobust.store.store import Store
from ctrobust.store.verdict_files import VerdictRecord, read_verdicts


class JobIndex:
    """The finished jobs of a store at one moment. Runs are read when they are first asked for."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._records: dict[Path, RunRecord] = {}
        self._evaluations: dict[Path, list[StoredEvaluation]] = {}

    @cached_property
    def _runs(self) -> dict[str, list[RunDirectory]]:
        """Finished runs by the hash of their spec, in the order of the store."""
        found: dict[str, list[RunDirectory]] = {}
        for run in self.store.runs():
            digest = self.store.hash_of(run)
            if digest is not None and run.record_file.exists():
                found.setdefault(digest, []).append(run)
        return found

    def runs(self, spec: TrainSpec) -> list[RunDirectory]:
        """The finished runs of a spec; a store and its read-only directories may both hold one."""
        return self._runs.get(spec_hash(spec), [])

    def run(self, spec: TrainSpec) -> RunDirectory | None:
        """The first finished run of a spec."""
        return next(iter(self.runs(spec)), None)

    def record(self, spec: TrainSpec) -> RunRecord | None:
        """The record of the first finished run of a spec."""
        run = self.run(spec)
        return None if run is None else self._record(run)

    def _record(self, run: RunDirectory) -> RunRecord:
        if run.path not in self._records:
            self._records[run.path] = run.read_record()
        return self._records[run.path]

    def trained(self, job: WeightsJob) -> RunDirectory | None:
        """The first finished run that has the weights that a job needs; a store may keep records without weights."""
        return next((run for run in self.runs(job.training) if _weights_file(run, job).exists()), None)

    def evaluation(self, job: EvaluationJob) -> StoredEvaluation | None:
        """The finished evaluation of a job: the same weights, attack, revision of the attack, examples and chunk."""
        runs, digests = self.runs(job.training), self._weights(job)
        wanted = (
            job.attack,
            attack_revision(job.attack),
            job.data or job.training.data,
            job.split,
            job.limit,
            job.chunk,
        )
        for run in runs:
            if run.path not in self._evaluations:
                self._evaluations[run.path] = run.evaluations()
            for one in self._evaluations[run.path]:
                spec = one.record.spec
                found = (spec.attack, spec.revision, spec.data, spec.split, spec.limit, spec.chunk)
                if found == wanted and spec.weights in digests:
                    return one
        return None

    def _weights(self, job: EvaluationJob | VerdictJob) -> set[str]:
        """The first 16 digits of the hashes of the weights that a job is about: those of any finished run."""
        runs = self.runs(job.training)
        if job.weights == "last":
            return {self._record(run).weights_sha256[:16] for run in runs}
        return {digest[:16] for run in runs if (digest := _best_weights(run)) is not None}

    def verdict(self, job: VerdictJob) -> VerdictRecord | None:
        """The complete verdict of a job: the same weights, ball, examples and seed."""
        digests, wanted = self._weights(job), (job.training.data, "test", job.limit, job.eps, job.norm, job.seed)
        for run in self.runs(job.training):
            for one in read_verdicts(run):
                spec = one.spec
                found = (spec.data, spec.split, spec.limit, spec.eps, spec.norm, spec.seed)
                if one.complete and found == wanted and spec.weights in digests:
                    return one
        return None

    def embedding(self, job: EmbeddingJob) -> Path | None:
        """The file of a finished embedding."""
        files = (embedding_file(run, job) for run in self.runs(job.training))
        return next((file for file in files if file.exists()), None)

    def is_done(self, job: Job) -> bool:
        """Whether the result of a job is stored."""
        if isinstance(job, EvaluationJob):
            return self.evaluation(job) is not None
        if isinstance(job, EmbeddingJob):
            return self.embedding(job) is not None
        if isinstance(job, VerdictJob):
            return self.verdict(job) is not None
        return isinstance(job, TrainingJob) and self.run(job.training) is not None

    def missing(self, jobs: Iterable[Job]) -> list[Job]:
        """The jobs that are left to run, each once, in order.

        These are the jobs whose results are not stored, and the trainings of their weights if no run has kept these.
        """
        wanted = list(dict.fromkeys(jobs))
        missing = {job for job in wanted if not self.is_done(job)}
        missing |= {
            required_training(job) for job in missing if not isinstance(job, TrainingJob) and self.trained(job) is None
        }
        return [job for job in wanted if job in missing]


def embedding_file(run: RunDirectory, job: EmbeddingJob) -> Path:
    """Where the embedding of a job is stored in its run directory."""
    return run.path / "artifacts" / f"{job.embedding}-{spec_hash(job)}.npz"


def _weights_file(run: RunDirectory, job: WeightsJob) -> Path:
    return run.model_file if job.weights == "last" else run.best_file


def _best_weights(run: RunDirectory) -> str | None:
    """The SHA-256 of the best weights; None if they are missing or cannot be read."""
    try:
        return hashlib.sha256(run.best_file.read_bytes()).hexdigest() if run.best_file.is_file() else None
    except OSError:
        return None
