"""A worker process on this machine: `python -m ctrobust.execution.local_worker FD`.

FD is the file descriptor of a connection to the coordinator, which sends the settings and then one job after another.
"""

import os
import signal
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from ctrobust.execution.coordinator import WorkerMessage
from ctrobust.specs import Job, TrainingJob
from ctrobust.store import Store


class LocalSettings(NamedTuple):
    """What a worker needs to know before its first job."""

    root: Path
    read_only: tuple[Path, ...]
    data_root: Path | None
    threads: int
    nice: int
    name: str


class _Stopped(BaseException):
    """SIGTERM came; it is no Exception, so that no job takes it for an error of its own."""


class _StopSignal:
    """SIGTERM: a training saves its state after its batch; anything else ends at once and resumes from its files."""

    def __init__(self) -> None:
        self.received = False
        self.job: Job | None = None

    def handle(self, _number: int, _frame: FrameType | None) -> None:
        self.received = True
        if not isinstance(self.job, TrainingJob):
            raise _Stopped


def work(connection: Connection) -> None:
    """Receive a job, run it, report what became of it, until the coordinator sends None or is gone."""
    stop = _StopSignal()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the coordinator decides
    signal.signal(signal.SIGTERM, stop.handle)
    try:
        settings: LocalSettings = connection.recv()
        os.nice(settings.nice)
        from ctrobust.execution.job_worker import prepare_worker, run_reported

        prepare_worker(settings.threads)
        store = Store(settings.root, settings.read_only)
        connection.send(WorkerMessage("ready", settings.name))
        while (job := connection.recv()) is not None:
            stop.job = job
            message = run_reported(job, store, settings.data_root, lambda: stop.received)
            stop.job = None
            if message is None or stop.received:
                return
            connection.send(message)
    except (EOFError, OSError, _Stopped):  # the coordinator is gone, or asked to stop
        return


if __name__ == "__main__":
    work(Connection(int(sys.argv[1])))
