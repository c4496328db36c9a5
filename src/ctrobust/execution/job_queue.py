"""The jobs that are left to run: which can start, which another process runs, how often each was tried."""

import contextlib
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ctrobust.errors import InUseError, RunError
from ctrobust.execution.execution_report import ExecutionReport
from ctrobust.execution.planning import describe_job, is_ready
from ctrobust.specs import Job, TrainingJob, spec_hash
from ctrobust.store import JobIndex, Store, write_atomic

ATTEMPTS = 3
"""How often a job is started whose worker dies; a job that raises an error is not repeated."""
SECONDS_BETWEEN_TRIES = 1.0
"""How long a job that another process runs is left alone before it is looked for again."""


class JobQueue:
    """Jobs in the order in which they may run. A job that was taken is locked in the store until it ends."""

    def __init__(self, jobs: Sequence[Job], store: Store, stored: Sequence[Job]) -> None:
        self.store, self.report = store, ExecutionReport()
        self.waiting = list(dict.fromkeys(jobs))
        self.done = set(stored)
        self.attempts: dict[Job, int] = {}
        self.elsewhere: dict[Job, float] = {}
        self.seconds: dict[type[Job], list[float]] = {}
        self._locks: dict[Job, contextlib.ExitStack] = {}
        self._started_at: dict[Job, float] = {}

    @property
    def taken(self) -> int:
        """How many jobs run here."""
        return len(self._locks)

    def take(self) -> Job | None:
        """The first job that can start: its training is done, and no other process runs it or has finished it."""
        for job in list(self.waiting):
            if job not in self.waiting or not is_ready(job, self.done) or self.elsewhere.get(job, 0) > time.monotonic():
                continue
            lock = contextlib.ExitStack()
            try:
                lock.enter_context(self.store.locked(job))
            except InUseError:
                self.postpone(job)
                continue
            self.elsewhere.pop(job, None)
            try:
                finished = job not in JobIndex(self.store).missing([job, *self._needing(job)])
            except RunError as error:  # a damaged file
                lock.close()
                self.waiting.remove(job)
                self.fail(job, str(error))
                continue
            if finished:
                lock.close()
                self._finish(job)
                continue
            self.waiting.remove(job)
            self.attempts[job] = self.attempts.get(job, 0) + 1
            self._locks[job], self._started_at[job] = lock, time.monotonic()
            return job
        return None

    def _needing(self, job: Job) -> list[Job]:
        """The jobs that wait for the weights of a training; none for other jobs."""
        return [one for one in self.waiting if one.training == job.training] if isinstance(job, TrainingJob) else []

    def complete(self, job: Job) -> None:
        """A job has finished here."""
        self.seconds.setdefault(type(job), []).append(time.monotonic() - self._started_at[job])
        self._release(job)
        self._finish(job)

    def retry(self, job: Job, reason: str) -> None:
        """The worker of a job died: run the job again, but not for ever."""
        self._release(job)
        if self.attempts[job] < ATTEMPTS:
            self.waiting.insert(0, job)
        else:
            self.fail(job, f"its worker died {ATTEMPTS} times, last with this message:\n{reason}")

    def postpone(self, job: Job) -> None:
        """Another process makes the result of a job: look again later."""
        if job in self._locks:
            self._release(job)
            self.attempts[job] -= 1
            self.waiting.append(job)
        self.elsewhere[job] = time.monotonic() + SECONDS_BETWEEN_TRIES

    def fail(self, job: Job, error: str) -> None:
        """A job has failed, and with it the jobs that need its weights. The error goes to a file in `logs`."""
        self._release(job)
        log = self._log(job)
        lines = error.strip().splitlines() or ["no message"]
        self.report.failed[job], self.report.errors[job] = log, lines[-1]
        with contextlib.suppress(RunError):  # a full disk: the error is still in the report
            write_atomic(log, f"{describe_job(job)}\n\n{error.rstrip()}\n".encode())
        for other in [one for one in self.waiting if one.training == job.training and not is_ready(one, self.done)]:
            self.waiting.remove(other)
            self.report.failed[other], self.report.errors[other] = log, f"its training failed: {lines[-1]}"

    def left(self) -> dict[type[Job], int]:
        """How many jobs of each kind have not ended."""
        return dict(Counter(type(job) for job in (*self.waiting, *self._locks)))

    def close(self) -> None:
        """Unlock the jobs that have not ended."""
        for job in list(self._locks):
            self._release(job)

    def _finish(self, job: Job) -> None:
        if job in self.waiting:
            self.waiting.remove(job)
        self.done.add(job)
        self.report.done.append(job)
        with contextlib.suppress(OSError):
            self._log(job).unlink(missing_ok=True)  # of an earlier failure

    def _release(self, job: Job) -> None:
        if job in self._locks:
            self._locks.pop(job).close()

    def _log(self, job: Job) -> Path:
        return self.store.root / "logs" / f"{spec_hash(job)}.txt"
