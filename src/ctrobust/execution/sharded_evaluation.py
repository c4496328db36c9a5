"""One evaluation spread over workers: each gets batches, which are formed exactly as in one process."""

import contextlib
import importlib.util
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import torch

from ctrobust.errors import InputError, JobsFailedError, closest
from ctrobust.evaluation import BatchObserver, Evaluator, StageBatch, stage_batches
from ctrobust.execution.batch_worker import UserModelCall, WorkerReport, WorkerSettings
from ctrobust.execution.process_batch_workers import ProcessBatchWorkers
from ctrobust.execution.ray_session import LOCAL, cluster_address
from ctrobust.models import UserModel, WeightsFile

ATTEMPTS_PER_BATCH = 3
"""How often a batch is started whose worker dies."""

POLL_SECONDS = 0.5

EVALUATION_EXECUTORS = ("local", "ray")


@dataclass(frozen=True)
class Sharding:
    """How one evaluation is spread over workers.

    Attributes:
        workers: their number; None is 1, or as many as find room in a Ray cluster.
        threads: the CPU threads of each; None is 1.
        executor: "local" processes, or the actors of a "ray" cluster.
        address: of the Ray cluster; None is that of $RAY_ADDRESS, or else one on this machine.
    """

    workers: int | None = None
    threads: int | None = None
    executor: str = "local"
    address: str | None = None

    def __post_init__(self) -> None:
        if self.executor not in EVALUATION_EXECUTORS:
            raise InputError(f"unknown executor {self.executor!r}; {closest(self.executor, EVALUATION_EXECUTORS)}")
        if self.address is not None and self.executor != "ray":
            raise InputError("--address names a Ray cluster: it needs --executor ray")
        if self.executor == "ray" and importlib.util.find_spec("ray") is None:
            raise InputError("--executor ray needs Ray, which is not installed: pip install 'ctrobust[ray]'")


class WorkerPool(Protocol):
    """Workers by number, each of which runs one batch at a time.

    Attributes:
        count: how many workers there are.
    """

    count: int

    def submit(self, worker: int, batch: StageBatch) -> None:
        """Give an idle worker a batch; a worker that died is started anew."""
        ...

    def collect(self, busy: set[int], timeout: float) -> list[tuple[int, WorkerReport]]:
        """Wait for reports of the busy workers."""
        ...

    def close(self) -> None:
        """End all workers at once."""
        ...


class ShardedRunner:
    """Runs the batches of a stage on a pool of workers; the batch of a worker that dies is repeated.

    Attributes:
        cpu_seconds: the processor time of the finished batches.
        workers: the number of workers, 0 before the first batch.
    """

    def __init__(self, make_pool: Callable[[], WorkerPool]) -> None:
        self.make_pool = make_pool
        self.pool: WorkerPool | None = None
        self.cpu_seconds = 0.0

    @property
    def workers(self) -> int:
        return 0 if self.pool is None else self.pool.count

    def close(self) -> None:
        if self.pool is not None:
            self.pool.close()

    def run(self, batches: Iterator[StageBatch], observer: BatchObserver) -> None:
        first = next(batches, None)
        if first is None:
            return
        pool = self.pool = self.pool or self.make_pool()
        waiting = itertools.chain([first], batches)
        running: dict[int, StageBatch] = {}
        attempts: Counter[str] = Counter()
        while True:
            for worker in sorted(set(range(pool.count)) - set(running)):
                if (batch := next(waiting, None)) is not None:
                    attempts[batch.name] += 1
                    running[worker] = batch
                    observer.begin(batch)
                    pool.submit(worker, batch)
            if not running:
                return
            for worker, report in pool.collect(set(running), POLL_SECONDS):
                batch = running[worker]
                match report.kind:
                    case "share":
                        observer.report(batch, report.value)
                    case "resume":
                        running[worker] = replace(batch, resume=report.value)
                        observer.save(batch, report.value)
                    case "outcome":
                        self.cpu_seconds += report.cpu_seconds
                        observer.finish(running.pop(worker), report.value)
                    case "error":
                        raise report.value
                    case "died":
                        _check_attempts(batch, attempts[batch.name], report.value)
                        waiting = itertools.chain([running.pop(worker)], waiting)


def _check_attempts(batch: StageBatch, attempts: int, died: str) -> None:
    if attempts >= ATTEMPTS_PER_BATCH:
        raise JobsFailedError(
            f"a worker died {attempts} times on the {len(batch.index)} images from image {batch.index[0]}, last "
            f"{died}; finished batches are stored. Run the command again with fewer --workers or a smaller --chunk"
        )


@contextlib.contextmanager
def sharded(
    sharding: Sharding, weights: WeightsFile | UserModel, evaluator: Evaluator
) -> Iterator["ShardedRunner | None"]:
    """A runner for the evaluator's attacks; None where one process is enough. Workers start with the first batch.

    Meanwhile this process, which classifies the clean images, has as many threads as each worker.
    """
    count = worker_count(sharding, evaluator)
    if count == 1 and sharding.executor == "local":
        yield None
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(sharding.threads or 1)
    runner = ShardedRunner(lambda: _pool(sharding, weights, evaluator, count))
    try:
        yield runner
    finally:
        runner.close()
        torch.set_num_threads(threads)


def worker_count(sharding: Sharding, evaluator: Evaluator) -> int:
    """The number of workers, not more than there are batches.

    Without a given number it is 1 on this machine, and on a Ray cluster as many as find room there.
    """
    batches = math.ceil(len(evaluator.batches.labels) / evaluator.chunk)
    if sharding.workers is not None or sharding.executor == "local":
        return min(sharding.workers or 1, batches)
    on_this_machine = cluster_address(sharding.address) == LOCAL
    return min(torch.get_num_threads(), batches) if on_this_machine else batches


def _pool(sharding: Sharding, weights: WeightsFile | UserModel, evaluator: Evaluator, count: int) -> WorkerPool:
    evaluator.clean_logits()  # and the decision whether there is a fused copy
    if weights.factory is not None and sharding.executor == "ray":
        raise InputError(
            f"--executor ray cannot build {weights.factory}: its code is on this machine only; choose --executor local"
        )
    settings = WorkerSettings(
        weights=Path() if isinstance(weights, UserModel) else weights.path.absolute(),
        sha256=weights.sha256,
        examples=evaluator.batches.images[: evaluator.chunk].numpy(),
        fused=evaluator.fused is not None,
        threads=sharding.threads or 1,
        resume_seconds=stage_batches.RESUME_STATE_SECONDS,
        factory=weights.factory,
        user_model=_user_model_call(weights) if isinstance(weights, UserModel) else None,
        repeats=weights.repeats,
    )
    if sharding.executor == "ray":
        from ctrobust.execution.ray_batch_workers import RayBatchWorkers  # imported here because Ray is an extra

        return RayBatchWorkers(settings, count, cluster_address(sharding.address))
    return ProcessBatchWorkers(settings, count)


def _user_model_call(network: UserModel) -> UserModelCall:
    file = None if network.weights is None else network.weights.absolute()
    return UserModelCall(network.factory, file, network.mean, network.std)
