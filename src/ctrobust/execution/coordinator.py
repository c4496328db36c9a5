"""The coordinator of an execution: gives jobs to workers, wherever they run, and handles what becomes of them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from ctrobust.errors import WorkerStartError
from ctrobust.execution.execution_report import ExecutionCallback, ExecutionProgress, ExecutionReport, WorkerActivity
from ctrobust.execution.job_queue import JobQueue
from ctrobust.specs import Job
from ctrobust.store import Store

STARTS = 3
"""How many workers may die one after another before they can take a job, until the execution is given up."""
POLL_SECONDS = 0.5


@dataclass(frozen=True)
class WorkerMessage:
    """What a worker reports.

    Attributes:
        kind: "ready" for its first job; "done", "failed" or "in use" for a job; "died" if the process is gone.
        text: the worker's name if it is ready, else the error.
    """

    kind: Literal["ready", "done", "failed", "in use", "died"]
    text: str = ""


class Workers(Protocol):
    """Processes that run jobs, each known by its number."""

    def start(self, number: int) -> None:
        """Start a worker, or a new one in the place of one that died."""
        ...

    def send(self, number: int, job: Job) -> None:
        """Give a job to a worker that is ready."""
        ...

    def receive(self, timeout: float) -> list[tuple[int, WorkerMessage]]:
        """The messages that have come, after waiting at most `timeout` seconds for the first."""
        ...

    def end(self, busy: Sequence[int]) -> None:
        """End all workers; those that run a training save its state first."""
        ...

    def kill(self) -> None:
        """End all workers at once."""
        ...


def coordinate(
    jobs: Sequence[Job],
    store: Store,
    workers: Workers,
    count: int,
    *,
    stored: Sequence[Job] = (),
    callback: ExecutionCallback | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> ExecutionReport:
    """Run jobs on `count` workers, trainings before the jobs that need them; `stored` are done already.

    A job that fails does not stop the others, and jobs that need its weights fail with it. A job that another process
    runs is waited for. When `stop` returns true, running trainings save their state and the function returns.

    Raises:
        WorkerStartError: workers die before they can take a job.
    """
    queue = JobQueue(jobs, store, stored)
    run = _Execution(queue, workers, len(jobs))
    try:
        run.start(max(1, min(count, len(jobs))))
        while queue.waiting or queue.taken:
            run.assign()
            if callback is not None:
                callback(run.progress())
            if stop():
                break
            for number, message in workers.receive(POLL_SECONDS):
                run.handle(number, message)
    except WorkerStartError:
        workers.end(run.busy)
        raise
    except BaseException:
        workers.kill()
        raise
    else:
        try:
            workers.end(run.busy)
        except BaseException:  # a second Ctrl-C
            workers.kill()
            raise
    finally:
        queue.close()
    if callback is not None:
        callback(run.progress())
    return queue.report


class _Execution:
    """Which worker runs which job."""

    def __init__(self, queue: JobQueue, workers: Workers, total: int) -> None:
        self.queue, self.workers, self.total = queue, workers, total
        self.activities: dict[int, WorkerActivity] = {}
        self.ready: set[int] = set()
        self.died_at_start = 0

    @property
    def busy(self) -> list[int]:
        return [number for number, activity in self.activities.items() if activity.job is not None]

    def start(self, count: int) -> None:
        for number in range(count):
            self.activities[number] = WorkerActivity(f"worker {number + 1}")
            self.workers.start(number)

    def assign(self) -> None:
        """Give each idle worker a job."""
        for number in sorted(self.ready.difference(self.busy)):
            job = self.queue.take()
            if job is None:
                return
            self.activities[number] = WorkerActivity(self.activities[number].name, job, time.monotonic())
            self.workers.send(number, job)

    def handle(self, number: int, message: WorkerMessage) -> None:
        """Record what a worker reports; replace a worker that died."""
        if message.kind == "ready":
            self.ready.add(number)
            self.died_at_start = 0
            self.activities[number] = WorkerActivity(message.text)
            return
        job, name = self.activities[number].job, self.activities[number].name
        self.activities[number] = WorkerActivity(name)
        if message.kind == "died":
            self._replace(number, message.text)
            if job is not None:
                self.queue.retry(job, message.text)
        elif job is not None and message.kind == "done":
            self.queue.complete(job)
        elif job is not None and message.kind == "in use":
            self.queue.postpone(job)
        elif job is not None:
            self.queue.fail(job, message.text)

    def _replace(self, number: int, reason: str) -> None:
        if number not in self.ready:
            self.died_at_start += 1
            if self.died_at_start >= STARTS:
                raise WorkerStartError(f"workers cannot start; the last one ended with this message:\n{reason}")
        self.ready.discard(number)
        self.workers.start(number)

    def progress(self) -> ExecutionProgress:
        queue = self.queue
        means = {kind: sum(seconds) / len(seconds) for kind, seconds in queue.seconds.items()}
        return ExecutionProgress(
            queue.report, self.total, tuple(self.activities.values()), len(queue.elsewhere), means, queue.left()
        )
