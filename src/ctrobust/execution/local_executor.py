"""Jobs on this machine: worker processes with pinned threads, restarted when one dies."""

import contextlib
import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from ctrobust.errors import CtrobustError
from ctrobust.execution.planning import describe_job, is_ready
from ctrobust.specs import Job, spec_hash
from ctrobust.store import Store, write_atomic

ATTEMPTS = 3
"""How often a job is started whose worker dies; a job that raises an error is not repeated."""


@dataclass
class ExecutionReport:
    """What became of the jobs.

    Attributes:
        done: the jobs that finished, in order.
        failed: the jobs that failed, with the file that holds the error.
    """

    done: list[Job] = field(default_factory=list)
    failed: dict[Job, Path] = field(default_factory=dict)


ExecutionCallback = Callable[[ExecutionReport, Sequence[Job], int], None]
"""Called with the report so far, the running jobs and the number of all jobs."""


def run_locally(
    jobs: Sequence[Job],
    store: Store,
    *,
    stored: Sequence[Job] = (),
    workers: int = 2,
    threads: int = 1,
    nice: int = 0,
    data_root: Path | None = None,
    callback: ExecutionCallback | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> ExecutionReport:
    """Run jobs in worker processes, trainings before the jobs that need them; `stored` are done already.

    A job that fails does not stop the others: its error goes to a file in the store's `logs`, and jobs that need its
    weights fail with it. When `stop` returns true, running trainings save their state and the function returns.
    """
    report = ExecutionReport()
    coordinator = _Coordinator(jobs, store, set(stored), report, threads, nice, data_root)
    try:
        coordinator.start_workers(max(1, min(workers, len(jobs))))
        while coordinator.unfinished:
            coordinator.assign()
            if callback is not None:
                callback(report, coordinator.running, len(jobs))
            if stop() or not coordinator.running:
                break
            coordinator.collect(timeout=0.5)
    finally:
        coordinator.end(save=True)
    coordinator.fail_unreachable()
    if callback is not None:
        callback(report, [], len(jobs))
    return report


@dataclass
class _Worker:
    process: Any
    connection: Connection
    job: Job | None = None


class _Coordinator:
    """Assigns jobs to workers and collects their results."""

    def __init__(
        self,
        jobs: Sequence[Job],
        store: Store,
        done: set[Job],
        report: ExecutionReport,
        threads: int,
        nice: int,
        data_root: Path | None,
    ) -> None:
        self.waiting, self.store, self.done, self.report = list(jobs), store, done, report
        self.settings = (str(store.root), tuple(map(str, store.read_only)), threads, nice, data_root)
        self.workers: list[_Worker] = []
        self.attempts: dict[Job, int] = {}
        self.stopped = False

    @property
    def running(self) -> list[Job]:
        return [worker.job for worker in self.workers if worker.job is not None]

    @property
    def unfinished(self) -> bool:
        return bool(self.waiting or self.running)

    def start_workers(self, count: int) -> None:
        for _ in range(count):
            self.workers.append(self._start())

    def _start(self) -> _Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, *self.settings), daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, ours)

    def assign(self) -> None:
        """Give each idle worker the first job whose training is done."""
        for worker in self.workers:
            if worker.job is None:
                job = next((one for one in self.waiting if is_ready(one, self.done)), None)
                if job is None:
                    return
                self.waiting.remove(job)
                worker.job = job
                self.attempts[job] = self.attempts.get(job, 0) + 1
                with contextlib.suppress(OSError):  # a worker that died is noticed when results are collected
                    worker.connection.send(job)

    def collect(self, timeout: float) -> None:
        """Take the results that are there, and replace workers that died."""
        busy = {worker.connection: worker for worker in self.workers if worker.job is not None}
        for connection in wait(list(busy), timeout):
            worker = busy[connection]  # type: ignore[index]
            job = worker.job
            assert job is not None
            try:
                error: str | None = worker.connection.recv()
            except (EOFError, OSError):
                self._replace(worker, job)
                continue
            worker.job = None
            if error is None:
                self.done.add(job)
                self.report.done.append(job)
            else:
                self._fail(job, error)

    def _replace(self, worker: _Worker, job: Job) -> None:
        worker.process.join()
        code = worker.process.exitcode
        worker.connection.close()
        self.workers[self.workers.index(worker)] = self._start()
        if self.attempts[job] < ATTEMPTS:
            self.waiting.insert(0, job)
        else:
            self._fail(job, f"the worker process died {ATTEMPTS} times, last with exit code {code}")

    def _fail(self, job: Job, error: str) -> None:
        log = self.store.root / "logs" / f"{spec_hash(job)}.txt"
        write_atomic(log, f"{describe_job(job)}\n\n{error}\n".encode())
        self.report.failed[job] = log

    def fail_unreachable(self) -> None:
        """Report the jobs whose training failed, which could not start."""
        failed = {job.training: log for job, log in self.report.failed.items()}
        for job in self.waiting:
            if job.training in failed and job not in self.report.failed:
                self.report.failed[job] = failed[job.training]

    def end(self, *, save: bool) -> None:
        """End the workers; a running training saves its state first."""
        for worker in self.workers:
            if worker.job is not None and save and worker.process.is_alive():
                os.kill(worker.process.pid, signal.SIGTERM)
            else:
                with contextlib.suppress(OSError):
                    worker.connection.send(None)
        for worker in self.workers:
            worker.process.join(timeout=60)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.connection.close()


def _work(
    connection: Connection, root: str, read_only: tuple[str, ...], threads: int, nice: int, data_root: Path | None
) -> None:
    """The loop of a worker: receive a job, run it, send None or the text of its error."""
    stopping: list[int] = []
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the coordinator decides
    signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))
    os.nice(nice)
    import torch

    from ctrobust.execution.job_runner import run_job
    from ctrobust.training import CheckpointPolicy, TrainingInterrupted, keep_freed_memory

    torch.set_num_threads(threads)
    keep_freed_memory()
    store, policy = Store(root, read_only), CheckpointPolicy(stop=lambda: bool(stopping))
    while not stopping:
        try:
            job = connection.recv()
        except (EOFError, OSError):
            return
        if job is None:
            return
        error = None
        try:
            run_job(job, store, data_root, policy)
        except TrainingInterrupted:
            return
        except CtrobustError as problem:
            error = f"{type(problem).__name__}: {problem}"
        except Exception:
            error = traceback.format_exc()
        connection.send(error)
