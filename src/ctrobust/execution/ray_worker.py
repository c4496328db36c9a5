"""A worker in a Ray cluster: an actor that runs one job after another.

On a machine that shares the store's file system it works in the store, and a job resumes from its checkpoint. Elsewhere
it works in a temporary directory, gets the files that a job needs, and returns those that the job made.
"""

import os
import shutil
import socket
import tempfile
from pathlib import Path
from typing import NamedTuple

from ctrobust._version import __version__
from ctrobust.execution.coordinator import WorkerMessage
from ctrobust.execution.job_worker import prepare_worker, run_reported
from ctrobust.execution.run_transfer import RunFiles, new_files, write_files
from ctrobust.specs import Job
from ctrobust.store import Store


class RaySettings(NamedTuple):
    """What a worker needs to know before its first job; all paths are absolute.

    Attributes:
        token_file, token: a file in the store and its content, by which a worker finds out if it shares the store.
        working_directory: in which relative paths of data sets are looked up, where it exists.
        environment: variables that are set unless the machine has its own.
    """

    root: Path
    read_only: tuple[Path, ...]
    token_file: Path
    token: str
    data_root: Path | None
    threads: int
    nice: int
    working_directory: Path
    environment: dict[str, str]


class RayHello(NamedTuple):
    """What a worker reports when it is ready."""

    host: str
    version: str
    shares_store: bool


class RayJobWorker:
    """The actor. `run` takes as long as its job; `stop` may be called meanwhile."""

    def __init__(self, settings: RaySettings) -> None:
        for name, value in settings.environment.items():
            os.environ.setdefault(name, value)
        os.nice(settings.nice)
        if settings.working_directory.is_dir():
            os.chdir(settings.working_directory)
        self.settings, self.stopped = settings, False
        self.shares_store = _shares_store(settings)
        self.scratch: str | None = None if self.shares_store else tempfile.mkdtemp(prefix="ctrobust-")
        self.store = Store(self.scratch or settings.root, settings.read_only if self.shares_store else ())

    def hello(self) -> RayHello:
        return RayHello(socket.gethostname(), __version__, self.shares_store)

    def run(self, job: Job, files: RunFiles) -> tuple[WorkerMessage | None, RunFiles]:
        """Run a job; return what became of it, and the files that it made if the store is not shared."""
        prepare_worker(self.settings.threads)  # in the thread of this call
        if self.shares_store:
            return self._run(job), {}
        run = self.store.directory(job.training)
        try:
            write_files(run, files)
            message = self._run(job)
            made = new_files(run, files) if message is not None and message.kind == "done" else {}
        finally:
            shutil.rmtree(run.path, ignore_errors=True)
        return message, made

    def _run(self, job: Job) -> WorkerMessage | None:
        return run_reported(job, self.store, self.settings.data_root, lambda: self.stopped)

    def stop(self) -> None:
        """Let a running training save its state and end."""
        self.stopped = True

    def close(self) -> None:
        """Remove the temporary directory."""
        if self.scratch is not None:
            shutil.rmtree(self.scratch, ignore_errors=True)


def _shares_store(settings: RaySettings) -> bool:
    """Whether the store and the read-only directories of the coordinator are on this machine too."""
    try:
        found = settings.token_file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return found == settings.token and all(path.is_dir() for path in settings.read_only)
