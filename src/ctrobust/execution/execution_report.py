"""What became of the jobs of a command, and what its workers do meanwhile."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ctrobust.specs import Job


@dataclass
class ExecutionReport:
    """What became of the jobs.

    Attributes:
        done: the jobs whose results are stored now, in the order in which they finished.
        failed: the jobs that failed, with the file that holds the error.
        errors: the last line of each failed job's error.
    """

    done: list[Job] = field(default_factory=list)
    failed: dict[Job, Path] = field(default_factory=dict)
    errors: dict[Job, str] = field(default_factory=dict)


@dataclass(frozen=True)
class WorkerActivity:
    """What one worker does.

    Attributes:
        name: such as "worker 1", with the machine's name in a cluster.
        job: the job that it runs; None while it starts or waits.
        started_at: when it received the job, by `time.monotonic()`.
    """

    name: str
    job: Job | None = None
    started_at: float = 0.0


@dataclass(frozen=True)
class ExecutionProgress:
    """The state of an execution at one moment.

    Attributes:
        report: the jobs that have ended.
        total: the number of all jobs.
        workers: what each worker does.
        elsewhere: how many jobs another process runs.
        mean_seconds: kind of job -> mean duration of those that have finished.
        left: kind of job -> how many have not ended.
    """

    report: ExecutionReport
    total: int
    workers: tuple[WorkerActivity, ...]
    elsewhere: int
    mean_seconds: dict[type[Job], float]
    left: dict[type[Job], int]

    @property
    def ended(self) -> int:
        """How many jobs are done or have failed."""
        return len(self.report.done) + len(self.report.failed)

    @property
    def running(self) -> list[Job]:
        """The jobs that run here."""
        return [worker.job for worker in self.workers if worker.job is not None]

    @property
    def unmeasured(self) -> list[type[Job]]:
        """The kinds of jobs that are left of which none has finished."""
        return [kind for kind in self.left if kind not in self.mean_seconds]

    def seconds_left(self) -> float | None:
        """Estimate the remaining time of measured kinds from the mean duration of each; None if none is measured."""
        measured = {kind: count for kind, count in self.left.items() if kind in self.mean_seconds}
        if not measured:
            return None
        now = time.monotonic()
        work = sum(self.mean_seconds[kind] * count for kind, count in measured.items())
        work -= sum(
            min(now - worker.started_at, self.mean_seconds[type(worker.job)])
            for worker in self.workers
            if worker.job is not None and type(worker.job) in measured
        )
        return work / max(1, len(self.workers))


ExecutionCallback = Callable[[ExecutionProgress], None]
"""Called about twice a second with the progress."""
