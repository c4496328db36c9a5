"""Jobs in a Ray cluster: an existing one, or one on this machine for as long as the command runs."""

import contextlib
import math
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ctrobust._version import __version__
from ctrobust.errors import CtrobustError, InUseError
from ctrobust.execution.coordinator import WorkerMessage, coordinate
from ctrobust.execution.execution_report import ExecutionCallback, ExecutionReport
from ctrobust.execution.executor_settings import ExecutorSettings
from ctrobust.execution.ray_session import cluster_address, count_places, import_ray, ray_session
from ctrobust.specs import Job, TrainingJob
from ctrobust.store import Store, write_atomic

SAVE_SECONDS = 60
PASSED_ON = ("CTROBUST_DATA",)
"""Environment variables that workers get."""


def run_on_ray(
    jobs: Sequence[Job],
    store: Store,
    *,
    stored: Sequence[Job] = (),
    options: ExecutorSettings | None = None,
    data_root: Path | None = None,
    callback: ExecutionCallback | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> ExecutionReport:
    """Run jobs as actors of a Ray cluster; `coordinate` explains the rest."""
    options = options or ExecutorSettings()
    import_ray()  # before anything is written
    store.check_writable()
    store = Store(store.root.absolute(), tuple(path.absolute() for path in store.read_only))
    cpus = max(1, math.ceil(min(options.local_workers(), len(jobs)) * _cpus(options)))
    with ray_session(cluster_address(options.address), cpus) as ray, _token(store) as (token_file, token):
        workers = RayWorkers(ray, store, options, data_root, token_file, token)
        count = min(options.workers or len(jobs), count_places(ray, _cpus(options), options.gpus_per_job))
        return coordinate(jobs, store, workers, count, stored=stored, callback=callback, stop=stop)


@contextlib.contextmanager
def _token(store: Store) -> Iterator[tuple[Path, str]]:
    """A file in the store with a random content, by which a worker knows that it shares the store."""
    token = secrets.token_hex(16)
    file = store.root / f".shared-{token[:8]}"
    write_atomic(file, token.encode())
    try:
        yield file, token
    finally:
        file.unlink(missing_ok=True)


def _cpus(options: ExecutorSettings) -> float:
    return options.threads if options.cpus_per_job is None else options.cpus_per_job


class RayWorkers:
    """Actors, each with a reference to the answer that is awaited from it."""

    def __init__(
        self, ray: Any, store: Store, options: ExecutorSettings, data_root: Path | None, token_file: Path, token: str
    ) -> None:
        from ctrobust.execution.ray_worker import RayJobWorker, RaySettings

        self.ray, self.store = ray, store
        self.actor_class = ray.remote(RayJobWorker).options(
            num_cpus=_cpus(options), num_gpus=options.gpus_per_job, max_restarts=0, max_concurrency=2
        )
        self.settings = RaySettings(
            root=store.root, read_only=store.read_only, token_file=token_file, token=token,
            data_root=None if data_root is None else data_root.absolute(), threads=options.threads, nice=options.nice,
            working_directory=Path.cwd(),
            environment={name: os.environ[name] for name in PASSED_ON if name in os.environ},
        )  # fmt: skip
        self.actors: dict[int, Any] = {}
        self.awaited: dict[Any, int] = {}
        self.jobs: dict[int, Job] = {}
        self.sharing: dict[int, bool] = {}
        self.unsent: list[tuple[int, WorkerMessage]] = []

    def start(self, number: int) -> None:
        self.jobs.pop(number, None)
        self.actors[number] = self.actor_class.remote(self.settings)
        self.awaited[self.actors[number].hello.remote()] = number

    def send(self, number: int, job: Job) -> None:
        from ctrobust.execution.run_transfer import needed_files

        self.jobs[number] = job
        try:
            files = {} if self.sharing[number] else needed_files(job, self.store)
        except (CtrobustError, OSError) as error:
            self.unsent.append((number, WorkerMessage("failed", f"{type(error).__name__}: {error}")))
            return
        self.awaited[self.actors[number].run.remote(job, files)] = number

    def receive(self, timeout: float) -> list[tuple[int, WorkerMessage]]:
        unsent, self.unsent = self.unsent, []
        if not self.awaited:
            time.sleep(0 if unsent else timeout)
            return unsent
        ready, _ = self.ray.wait(list(self.awaited), timeout=0 if unsent else timeout)
        return unsent + [(number, self._message(number, one)) for one in ready for number in [self.awaited.pop(one)]]

    def _message(self, number: int, reference: Any) -> WorkerMessage:
        try:
            answer = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            text = str(error)
            if "No module named 'ctrobust" in text:
                text += f"\nctrobust {__version__} is not installed on a machine of the cluster: install it there"
            return WorkerMessage("died", text)
        if number not in self.jobs:
            return self._greet(number, answer)
        message, files = answer
        return self._store(self.jobs.pop(number), files) or message or WorkerMessage("in use", "it was stopped")

    def _store(self, job: Job, files: dict[str, bytes]) -> WorkerMessage | None:
        """Store what a job made on a machine that does not share the store; return a message if that fails."""
        from ctrobust.execution.run_transfer import store_files

        try:
            if files:
                store_files(job, self.store, files)
        except InUseError as error:
            return WorkerMessage("in use", str(error))
        except CtrobustError as error:
            return WorkerMessage("failed", f"{type(error).__name__}: {error}")
        return None

    def _greet(self, number: int, hello: Any) -> WorkerMessage:
        if hello.version != __version__:
            self.ray.kill(self.actors[number])
            text = f"{hello.host} has ctrobust {hello.version}, this machine has {__version__}: install the same there"
            return WorkerMessage("died", text)
        self.sharing[number] = hello.shares_store
        return WorkerMessage("ready", f"worker {number + 1} on {hello.host}")

    def end(self, busy: Sequence[int]) -> None:
        for number in busy:
            self.actors[number].stop.remote()
        running = {one: number for one, number in self.awaited.items() if number in busy}
        until = time.monotonic() + SAVE_SECONDS
        trainings = [one for one, number in running.items() if self._can_save(number)]
        if trainings:
            self.ray.wait(trainings, num_returns=len(trainings), timeout=max(0.0, until - time.monotonic()))
        self.kill()

    def _can_save(self, number: int) -> bool:
        return isinstance(self.jobs.get(number), TrainingJob) and self.sharing.get(number, False)

    def kill(self) -> None:
        closed = [actor.close.remote() for number, actor in self.actors.items() if not self.sharing.get(number, True)]
        if closed:
            self.ray.wait(closed, num_returns=len(closed), timeout=5)
        for actor in self.actors.values():
            self.ray.kill(actor)
        self.actors.clear()
