"""Batches that several workers share: here workers of this process, which finish in another order, die and fail."""

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch
from torch import nn

from ctrobust import data as datasets
from ctrobust.attacks import FGSM
from ctrobust.errors import InputError, JobsFailedError
from ctrobust.evaluation import Evaluator, StageBatch, StateArrays, stage_batches
from ctrobust.execution import Sharding, sharded_evaluation
from ctrobust.execution.batch_worker import BatchWorker, WorkerReport, WorkerSettings
from ctrobust.execution.sharded_evaluation import worker_count
from ctrobust.store import Journal
from tests.execution.shards import CHUNK, GRADIENTS, LIMIT, SEARCH, attacked, stored


class ImmediatePool:
    """Workers in this process; the last batch that was given is done first, and some of them die.

    Attributes:
        deaths: how many batches are lost when they are done, of each worker.
        seen: the name of each batch that was given, and whether it had a resume state.
    """

    def __init__(self, settings: WorkerSettings, count: int, deaths: int = 0) -> None:
        self.worker, self.count = BatchWorker(settings), count
        self.deaths = dict.fromkeys(range(count), deaths)
        self.given: dict[int, StageBatch] = {}
        self.seen: list[tuple[str, bool]] = []
        self.closed = False

    def submit(self, worker: int, batch: StageBatch) -> None:
        assert {one.stage for one in self.given.values()} <= {batch.stage}  # stages do not overlap
        self.given[worker] = batch
        self.seen.append((batch.name, bool(batch.resume)))

    def collect(self, busy: set[int], timeout: float) -> list[tuple[int, WorkerReport]]:
        assert busy == set(self.given)
        assert timeout > 0
        worker = list(self.given)[-1]
        saved: list[StateArrays] = []
        done = self.worker.run(self.given.pop(worker), saved.append, lambda _: None)
        reports = [(worker, WorkerReport("resume", one)) for one in saved[:2]]
        if self.deaths[worker]:
            self.deaths[worker] -= 1
            done = WorkerReport("died", "by SIGKILL")
        return [*reports, (worker, WorkerReport("share", 0.5)), (worker, done)]

    def close(self) -> None:
        self.closed = True


@dataclass
class Pools:
    """The pools that evaluations use in place of processes; their workers die so often."""

    deaths: int = 0
    made: list[ImmediatePool] = field(default_factory=list)

    def make(self, settings: WorkerSettings, count: int) -> ImmediatePool:
        self.made.append(ImmediatePool(settings, count, self.deaths))
        return self.made[-1]


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pools]:
    found = Pools()
    monkeypatch.setattr(sharded_evaluation, "ProcessBatchWorkers", found.make)
    yield found
    assert all(pool.closed for pool in found.made)


def expected(attacked_by_one: Path, *kinds: str) -> object:
    return {name: found for name, found in stored(attacked_by_one).items() if name.startswith(("none", *kinds))}


def test_outcomes_are_those_of_one_process(classifier: Path, attacked_by_one: Path, pools: Pools) -> None:
    rows = attacked(classifier, [GRADIENTS, SEARCH], Sharding(workers=3))
    assert stored(classifier) == stored(attacked_by_one)
    (pool,) = pools.made  # all attacks share the workers
    assert pool.count == 3
    assert {name.partition("-")[0] for name, _ in pool.seen} == {"0", "1"}
    for row in rows:
        assert row.facts.environment is not None
        assert row.facts.environment["workers"] == 3
        assert row.facts.cpu_seconds is not None


def test_the_batch_of_a_dead_worker_is_repeated_from_its_resume_state(
    classifier: Path, attacked_by_one: Path, pools: Pools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage_batches, "RESUME_STATE_SECONDS", 0.0)
    pools.deaths = 2
    attacked(classifier, [SEARCH], Sharding(workers=2))
    assert stored(classifier) == expected(attacked_by_one, "square")
    names = [name for name, _ in pools.made[0].seen]
    assert len(names) == len(set(names)) + 4  # two workers died twice
    repeated = [resumed for number, (name, resumed) in enumerate(pools.made[0].seen) if name in names[:number]]
    assert repeated == [True] * 4


def test_a_batch_that_kills_its_workers_is_given_up_and_what_is_done_stays(
    classifier: Path, attacked_by_one: Path, pools: Pools
) -> None:
    pools.deaths = 10**9
    message = (
        rf"a worker died 3 times on the {CHUNK} images from image \d+, last by SIGKILL; finished batches are stored. "
        "Run the command again with fewer --workers or a smaller --chunk"
    )
    with pytest.raises(JobsFailedError, match=message):
        attacked(classifier, [GRADIENTS], Sharding(workers=2))
    assert len(pools.made[0].seen) <= 2 * 3
    pools.deaths = 0
    attacked(classifier, [GRADIENTS], Sharding(workers=2))
    assert stored(classifier) == expected(attacked_by_one, "apgd")


def test_finished_batches_are_not_run_again(classifier: Path, attacked_by_one: Path, pools: Pools) -> None:
    done: list[str] = []

    def stop(_: float, __: float, stage: str) -> None:
        partial = next((classifier / "outcomes").glob("apgd*.partial"), None)
        if "restart 2" in stage and partial is not None:
            done.append(partial.name)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        attacked(classifier, [GRADIENTS], Sharding(workers=2), progress=stop)
    finished = Journal(classifier / "outcomes" / done[0]).read()
    (row,) = attacked(classifier, [GRADIENTS])  # one process goes on where two workers stopped
    assert stored(classifier) == expected(attacked_by_one, "apgd")
    assert len(finished) == len(pools.made[0].seen) - len(pools.made[0].given)
    assert row.facts.seconds is None


def test_an_error_of_a_worker_is_raised_here(classifier: Path, pools: Pools) -> None:
    text = (classifier / "model.safetensors").read_bytes()

    def damage(_: float, __: float, stage: str) -> None:
        if stage != "clean images":
            (classifier / "model.safetensors").write_bytes(text[:-1])

    with pytest.raises(Exception, match=r"model\.safetensors was changed or removed while it was being evaluated"):
        attacked(classifier, [GRADIENTS], Sharding(workers=2), progress=damage)
    assert pools.made[0].closed


@pytest.mark.parametrize(("workers", "used"), [(1, 0), (2, 2), (64, LIMIT // CHUNK)])
def test_there_are_not_more_workers_than_batches(classifier: Path, pools: Pools, workers: int, used: int) -> None:
    attacked(classifier, [FGSM(eps=0.1)], Sharding(workers=workers))
    assert [pool.count for pool in pools.made] == ([used] if used else [])


def test_clean_images_need_no_workers(classifier: Path, pools: Pools) -> None:
    attacked(classifier, [None], Sharding(workers=2))
    assert pools.made == []


def test_impossible_settings_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="unknown executor 'slurm'; known: local, ray"):
        Sharding(executor="slurm")
    with pytest.raises(InputError, match="--address names a Ray cluster: it needs --executor ray"):
        Sharding(address="10.0.0.1:6379")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"needs Ray, which is not installed: pip install 'ctrobust\[ray\]'"):
        Sharding(executor="ray")


@pytest.mark.parametrize(
    ("sharding", "threads", "expected"),
    [
        (Sharding(), 2, 1),
        (Sharding(workers=3), 2, 3),
        (Sharding(executor="ray"), 2, 2),
        (Sharding(executor="ray", workers=3), 2, 3),
        (Sharding(executor="ray", address="auto"), 2, LIMIT // CHUNK),
    ],
)
def test_the_default_number_of_workers(
    monkeypatch: pytest.MonkeyPatch, sharding: Sharding, threads: int, expected: int
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    digits, network = datasets.load("digits", "test"), nn.Sequential(nn.Flatten(), nn.Linear(784, 10))
    evaluator = Evaluator(network, digits, [FGSM(eps=0.1), None], limit=LIMIT, chunk=CHUNK)
    assert worker_count(sharding, evaluator) == expected
    whole = Evaluator(network, digits, [FGSM(eps=0.1)], limit=LIMIT, chunk=LIMIT)
    assert worker_count(sharding, whole) == 1
