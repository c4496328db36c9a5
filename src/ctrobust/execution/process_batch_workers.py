"""Workers of a sharded evaluation as processes on this machine."""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from ctrobust.evaluation import StageBatch
from ctrobust.execution.batch_worker import BatchWorker, WorkerReport, WorkerSettings


class _Process(NamedTuple):
    process: Any
    connection: Connection


class ProcessBatchWorkers:
    """A number of worker processes, started with the first batch. They end with the coordinator, however it ends."""

    def __init__(self, settings: WorkerSettings, count: int) -> None:
        self.settings, self.count = settings, count
        self.processes: dict[int, _Process] = {}

    def submit(self, worker: int, batch: StageBatch) -> None:
        """Give an idle worker a batch."""
        for number in range(self.count):  # all of them load torch at the same time
            if number not in self.processes:
                self.processes[number] = self._start()
        with contextlib.suppress(OSError):  # a worker that died is noticed when reports are collected
            self.processes[worker].connection.send(batch)

    def _start(self) -> _Process:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, self.settings), daemon=True)
        with _interrupts_blocked():
            process.start()
        theirs.close()
        return _Process(process, ours)

    def collect(self, busy: set[int], timeout: float) -> list[tuple[int, WorkerReport]]:
        """Wait for reports of the busy workers; a worker that died is ended, and its place is free for a new one."""
        connections = {self.processes[worker].connection: worker for worker in busy}
        reports: list[tuple[int, WorkerReport]] = []
        for ready in wait(list(connections), timeout):
            worker = connections[ready]  # type: ignore[index]
            try:
                reports.append((worker, self.processes[worker].connection.recv()))
            except (EOFError, OSError):
                reports.append((worker, WorkerReport("died", self._remove(worker))))
        return reports

    def _remove(self, worker: int) -> str:
        """Forget a worker that died; return how it died."""
        process, connection = self.processes.pop(worker)
        process.join()
        connection.close()
        code = process.exitcode
        if code is not None and code < 0:
            return f"by {signal.Signals(-code).name}{', perhaps because memory ran out' if code == -9 else ''}"
        return f"with exit code {code}"

    def close(self) -> None:
        """End the workers; idle ones by themselves."""
        for _, connection in self.processes.values():
            with contextlib.suppress(OSError):
                connection.send(None)
        for process, connection in self.processes.values():
            process.join(timeout=0.5)
            process.kill()
            process.join()
            connection.close()
        self.processes.clear()


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Start a process that never gets Ctrl-C, which reaches all processes of a terminal: the coordinator decides."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(connection: Connection, settings: WorkerSettings) -> None:
    """The loop of a worker: receive a batch, run it, send reports."""
    threading.Thread(target=_end_with_coordinator, daemon=True).start()
    worker = BatchWorker(settings)
    with contextlib.suppress(EOFError, OSError):  # the coordinator has gone
        while (batch := connection.recv()) is not None:
            connection.send(
                worker.run(
                    batch,
                    save=lambda resume: connection.send(WorkerReport("resume", resume)),
                    report=lambda share: connection.send(WorkerReport("share", share)),
                )
            )


def _end_with_coordinator() -> None:
    """End this process when its parent has gone, also within a batch that takes hours."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
