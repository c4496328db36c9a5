"""Jobs in worker processes."""

import multiprocessing
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from ctrobust.execution import ExecutionReport, run_job, run_locally
from ctrobust.specs import EmbeddingJob, EvaluationJob, Job, TrainingJob, TrainSpec, train_spec
from ctrobust.store import JobIndex, Store

SPEC = train_spec({"data": "digits", "limit": 48, "epochs": 2, "batch_size": 16, "model": {"width": 4}})
TRAINING = TrainingJob(training=SPEC)
EVALUATIONS = [
    EvaluationJob(training=SPEC, attack=attack, limit=10) for attack in ("fgsm:eps=0.1", "pgd:eps=0.1,steps=3", "none")
]
BROKEN = TrainSpec(data="npz:absent.npz")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, ExecutionReport]:
    """A training, its evaluations and an embedding, a job that fails, and one that needs the failed one."""
    store = Store(tmp_path_factory.mktemp("runs"))
    broken: list[Job] = [TrainingJob(training=BROKEN), EvaluationJob(training=BROKEN, attack="fgsm:eps=0.1")]
    jobs: list[Job] = [*broken, TRAINING, EmbeddingJob(training=SPEC, limit=20), *EVALUATIONS]
    killed: list[int] = []

    def kill_one(_: ExecutionReport, running: Sequence[Job], __: int) -> None:
        """Kill the workers once, while the training is on one of them."""
        if TRAINING in running and not killed:
            for process in multiprocessing.active_children():
                assert process.pid is not None
                killed.append(process.pid)
                os.kill(process.pid, signal.SIGKILL)

    report = run_locally(jobs, store, workers=2, callback=kill_one)
    assert killed
    return store, report


def test_all_jobs_are_done_although_workers_were_killed(finished: tuple[Store, ExecutionReport]) -> None:
    store, report = finished
    index = JobIndex(store)
    assert {TRAINING, *EVALUATIONS} <= set(report.done)
    assert len(report.done) == len(set(report.done)) == 5
    assert index.missing([TRAINING, *EVALUATIONS]) == []
    stored = index.evaluation(EVALUATIONS[0])
    assert stored is not None
    assert len(stored.evaluation) == 10


def test_a_failed_job_is_reported_with_its_log_and_fails_what_needs_it(finished: tuple[Store, ExecutionReport]) -> None:
    store, report = finished
    assert [job.training for job in report.failed] == [BROKEN, BROKEN]
    (log,) = set(report.failed.values())
    assert log.parent == store.root / "logs"
    assert "DataError" in log.read_text()
    assert "absent.npz" in log.read_text()


def test_an_embedding_is_stored(finished: tuple[Store, ExecutionReport]) -> None:
    file = JobIndex(finished[0]).embedding(EmbeddingJob(training=SPEC, limit=20))
    assert file is not None
    assert file.stat().st_size > 0


def test_stored_jobs_are_not_run_again(finished: tuple[Store, ExecutionReport]) -> None:
    store, _ = finished
    extra = EvaluationJob(training=SPEC, attack="fgsm:eps=0.2", limit=10)
    before = {file: file.stat().st_mtime_ns for file in Path(store.root).rglob("*.safetensors")}
    report = run_locally([extra], store, stored=[TRAINING], workers=1)
    assert report.done == [extra]
    assert {file: file.stat().st_mtime_ns for file in Path(store.root).rglob("*.safetensors")} == before


def test_read_only_directories_are_not_written_to(finished: tuple[Store, ExecutionReport], tmp_path: Path) -> None:
    source, _ = finished
    before = {file: file.stat().st_mtime_ns for file in Path(source.root).rglob("*") if file.suffix != ".lock"}
    store = Store(tmp_path / "runs", (source.root,))
    extra = EvaluationJob(training=SPEC, attack="fgsm:eps=0.3", limit=10)
    run_job(extra, store)
    assert {file: file.stat().st_mtime_ns for file in before} == before
    assert set(Path(source.root).rglob("*.npz")) <= set(before)
    index = JobIndex(store)
    assert index.missing([TRAINING, extra, *EVALUATIONS]) == []  # results of both directories are found
    stored = index.evaluation(extra)
    assert stored is not None
    assert stored.file.is_relative_to(tmp_path / "runs")


def test_a_stop_saves_the_running_training(tmp_path: Path) -> None:
    store = Store(tmp_path)
    long = TrainingJob(training=SPEC.model_copy(update={"epochs": 10_000}))
    calls: list[int] = []

    def stop() -> bool:
        calls.append(1)
        return store.directory(long.training).metrics_file.exists()

    report = run_locally([long], store, workers=1, stop=stop)
    assert report.done == []
    assert report.failed == {}
    assert store.directory(long.training).checkpoint_file.exists()
    assert calls
