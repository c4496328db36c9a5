"""Workers of a sharded evaluation as actors of a Ray cluster."""

import contextlib
from dataclasses import replace
from typing import Any

import numpy as np

from ctrobust.evaluation import StageBatch, StateArrays
from ctrobust.execution.batch_worker import BatchWorker, WorkerReport, WorkerSettings
from ctrobust.execution.ray_session import LOCAL, count_places, ray_session


class BatchActor:
    """One worker; `progress` may be called while `run` runs.

    `content` holds a reference to the bytes of the weights, for machines that cannot read their file.
    """

    def __init__(self, settings: WorkerSettings, content: list[Any]) -> None:
        import ray

        self.worker = BatchWorker(settings, (lambda: ray.get(content[0])) if content else None)
        self.latest: dict[str, WorkerReport] = {}

    def run(self, batch: StageBatch) -> WorkerReport:
        """Run one batch to its end."""
        arrays = {name: np.array(getattr(batch, name)) for name in ("index", "images", "labels", "clean")}
        batch = replace(batch, **arrays, resume=_writable(batch.resume))  # type: ignore[arg-type]
        return self.worker.run(
            batch,
            save=lambda resume: self._keep(WorkerReport("resume", resume)),
            report=lambda share: self._keep(WorkerReport("share", share)),
        )

    def _keep(self, report: WorkerReport) -> None:
        self.latest[report.kind] = report

    def progress(self) -> list[WorkerReport]:
        """The latest resume state and share that were not asked for yet."""
        latest, self.latest = self.latest, {}
        return list(latest.values())


class RayBatchWorkers:
    """Actors with as many CPUs as threads each, not more than fit the cluster."""

    def __init__(self, settings: WorkerSettings, count: int, address: str) -> None:
        self.settings = settings
        with contextlib.ExitStack() as session:
            self.ray = session.enter_context(ray_session(address, count * settings.threads))
            self.count = min(count, count_places(self.ray, settings.threads))
            # a cluster on this machine reads the file
            self.content = [] if address == LOCAL else [self.ray.put(settings.weights.read_bytes())]
            self.session = session.pop_all()
        options = {"num_cpus": settings.threads, "max_restarts": 0, "max_concurrency": 2}
        self.actor_class = self.ray.remote(**options)(BatchActor)
        self.actors: dict[int, Any] = {}
        self.results: dict[int, Any] = {}
        self.questions: dict[int, Any] = {}

    def submit(self, worker: int, batch: StageBatch) -> None:
        """Give an idle worker a batch."""
        if worker not in self.actors:
            self.actors[worker] = self.actor_class.remote(self.settings, self.content)
        self.results[worker] = self.actors[worker].run.remote(batch)
        self.questions[worker] = self.actors[worker].progress.remote()

    def collect(self, busy: set[int], timeout: float) -> list[tuple[int, WorkerReport]]:
        """Wait for reports of the busy workers; a worker that died leaves its place to a new one."""
        results = {self.results[worker]: worker for worker in busy}
        done, _ = self.ray.wait(list(results), num_returns=1, timeout=timeout)
        reports = [(results[one], self._result(results[one])) for one in done]
        for worker in busy - {worker for worker, _ in reports}:
            if self.ray.wait([self.questions[worker]], timeout=0)[0]:
                with contextlib.suppress(self.ray.exceptions.RayError):  # its result tells how it died
                    answers = self.ray.get(self.questions[worker])
                    reports += [(worker, _owned(answer)) for answer in answers]
                    self.questions[worker] = self.actors[worker].progress.remote()
        return reports

    def _result(self, worker: int) -> WorkerReport:
        try:
            return _owned(self.ray.get(self.results.pop(worker)))
        except self.ray.exceptions.RayError as error:
            del self.actors[worker]
            absent = "No module named 'ctrobust" in str(error)
            hint = "; ctrobust is not installed on a machine of the cluster" if absent else ""
            return WorkerReport("died", f"with {type(error).__name__}{hint}")

    def close(self) -> None:
        """End the actors and leave the cluster, which ends if it was started here."""
        self.session.close()


def _owned(report: WorkerReport) -> WorkerReport:
    """The report with arrays that may be written to: Ray's share its read-only memory."""
    return report._replace(value=_writable(report.value)) if report.kind in ("resume", "outcome") else report


def _writable(arrays: StateArrays) -> StateArrays:
    return {name: np.array(array) for name, array in arrays.items()}
