"""Jobs on this machine: worker processes with pinned threads, replaced when one dies."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import IO

from ctrobust.execution.coordinator import WorkerMessage, coordinate
from ctrobust.execution.execution_report import ExecutionCallback, ExecutionReport
from ctrobust.execution.executor_settings import ExecutorSettings
from ctrobust.execution.local_worker import LocalSettings
from ctrobust.specs import Job
from ctrobust.store import Store

START_SECONDS = 300
"""How long a worker may take to load its modules."""
SAVE_SECONDS = 60
"""How long a training may take to save its state."""
SHOWN_BYTES = 4000
"""How much of the output of a worker that died is shown."""


def run_locally(
    jobs: Sequence[Job],
    store: Store,
    *,
    stored: Sequence[Job] = (),
    options: ExecutorSettings | None = None,
    data_root: Path | None = None,
    callback: ExecutionCallback | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> ExecutionReport:
    """Run jobs in processes on this machine; `coordinate` explains the rest."""
    options = options or ExecutorSettings()
    options.refuse_cluster_settings()
    store.check_writable()
    workers = LocalWorkers(store, options, data_root)
    return coordinate(jobs, store, workers, options.local_workers(), stored=stored, callback=callback, stop=stop)


@dataclass
class _WorkerProcess:
    process: subprocess.Popen[bytes]
    connection: Connection
    output: IO[bytes]
    starts_until: float | None

    def last_output(self) -> str:
        """The end of what the process printed, and how it ended."""
        code = self.process.returncode
        self.output.seek(0, os.SEEK_END)
        self.output.seek(max(0, self.output.tell() - SHOWN_BYTES))
        printed = self.output.read().decode(errors="replace").strip()
        end = f"it was ended by {signal.Signals(-code).name}" if code < 0 else f"it ended with exit code {code}"
        return f"{printed}\n{end}".strip()


class LocalWorkers:
    """Processes of this machine. What they print is shown only if one dies."""

    def __init__(self, store: Store, options: ExecutorSettings, data_root: Path | None) -> None:
        self.settings = LocalSettings(
            store.root, store.read_only, data_root, options.threads, options.nice, "worker"
        )  # fmt: skip
        self.processes: dict[int, _WorkerProcess] = {}

    def start(self, number: int) -> None:
        if number in self.processes:
            self._close(self.processes[number])
        ours, theirs = multiprocessing.Pipe()
        output = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process
        threads = str(self.settings.threads)
        process = subprocess.Popen(  # noqa: S603 - this interpreter
            [sys.executable, "-m", "ctrobust.execution.local_worker", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads},
        )
        theirs.close()
        with contextlib.suppress(OSError):  # a process that died is noticed by `receive`
            ours.send(self.settings._replace(name=f"worker {number + 1}"))
        self.processes[number] = _WorkerProcess(process, ours, output, time.monotonic() + START_SECONDS)

    def send(self, number: int, job: Job) -> None:
        with contextlib.suppress(OSError):  # a process that died is noticed by `receive`
            self.processes[number].connection.send(job)

    def receive(self, timeout: float) -> list[tuple[int, WorkerMessage]]:
        numbers = {one.connection: number for number, one in self.processes.items()}
        found = [(numbers[one], self._message(numbers[one])) for one in wait(list(numbers), timeout)]  # type: ignore[index]
        now = time.monotonic()
        for number, one in self.processes.items():
            if one.starts_until is not None and now > one.starts_until:
                one.process.kill()
                one.process.wait()
                text = f"the process did not load its modules within {START_SECONDS} seconds\n{one.last_output()}"
                found.append((number, WorkerMessage("died", text)))
        return found

    def _message(self, number: int) -> WorkerMessage:
        one = self.processes[number]
        try:
            message: WorkerMessage = one.connection.recv()
        except (EOFError, OSError):
            one.process.wait()
            return WorkerMessage("died", one.last_output())
        one.starts_until = None
        return message

    def end(self, busy: Sequence[int]) -> None:
        for number, one in self.processes.items():
            if number in busy:
                one.process.terminate()
            elif one.starts_until is not None:
                one.process.kill()
            else:
                one.connection.close()
        until = time.monotonic() + SAVE_SECONDS
        for one in self.processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                one.process.wait(max(0.1, until - time.monotonic()))
        self.kill()

    def kill(self) -> None:
        for one in self.processes.values():
            one.process.kill()
            one.process.wait()
            self._close(one)
        self.processes.clear()

    @staticmethod
    def _close(one: _WorkerProcess) -> None:
        one.connection.close()
        one.output.close()
