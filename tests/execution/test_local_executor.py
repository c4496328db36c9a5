"""Jobs in worker processes."""

import os
import signal
import time
from pathlib import Path

import pytest

from ctrobust.errors import RunError, WorkerStartError
from ctrobust.execution import (
    ExecutionProgress,
    ExecutionReport,
    ExecutorSettings,
    local_executor,
    run_job,
    run_locally,
)
from ctrobust.execution.local_executor import SAVE_SECONDS
from ctrobust.specs import EmbeddingJob, EvaluationJob, Job, TrainingJob, TrainSpec, train_spec
from ctrobust.store import JobIndex, Store
from tests.execution.worker_processes import WrittenOnce, descendants

SPEC = train_spec({"data": "digits", "limit": 48, "epochs": 2, "batch_size": 16, "model": {"width": 4}})
TRAINING = TrainingJob(training=SPEC)
EVALUATIONS = [
    EvaluationJob(training=SPEC, attack=attack, limit=10) for attack in ("fgsm:eps=0.1", "pgd:eps=0.1,steps=3", "none")
]
BROKEN = TrainSpec(data="npz:absent.npz")
WORKER = "ctrobust.execution.local_worker"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, ExecutionReport]:
    """A training, its evaluations and an embedding, a job that fails, and one that needs the failed one."""
    store = Store(tmp_path_factory.mktemp("runs"))
    broken: list[Job] = [TrainingJob(training=BROKEN), EvaluationJob(training=BROKEN, attack="fgsm:eps=0.1")]
    jobs: list[Job] = [*broken, TRAINING, EmbeddingJob(training=SPEC, limit=20), *EVALUATIONS]
    killed: list[int] = []

    def kill_one(progress: ExecutionProgress) -> None:
        """Kill the workers once, while the training is on one of them."""
        if TRAINING in progress.running and not killed:
            killed.extend(descendants(WORKER))
            for process in killed:
                os.kill(process, signal.SIGKILL)

    report = run_locally(jobs, store, options=ExecutorSettings(workers=2), callback=kill_one)
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


def test_workers_have_the_threads_and_the_niceness_that_are_asked_for(tmp_path: Path) -> None:
    seen: set[tuple[str, int]] = set()

    def look(progress: ExecutionProgress) -> None:
        if progress.running:
            for process in descendants(WORKER):
                variables = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
                threads = next(one.decode() for one in variables if one.startswith(b"OMP_NUM_THREADS="))
                seen.add((threads, os.getpriority(os.PRIO_PROCESS, process)))

    options = ExecutorSettings(workers=1, threads=2, nice=3)
    assert run_locally([TRAINING], Store(tmp_path), options=options, callback=look).failed == {}
    assert seen == {("OMP_NUM_THREADS=2", min(19, os.getpriority(os.PRIO_PROCESS, 0) + 3))}
    record = Store(tmp_path).directory(SPEC).read_record()
    assert record.environment["threads"] == 2


def test_an_embedding_is_stored(finished: tuple[Store, ExecutionReport]) -> None:
    file = JobIndex(finished[0]).embedding(EmbeddingJob(training=SPEC, limit=20))
    assert file is not None
    assert file.stat().st_size > 0


def test_stored_jobs_are_not_run_again(finished: tuple[Store, ExecutionReport]) -> None:
    store, _ = finished
    extra = EvaluationJob(training=SPEC, attack="fgsm:eps=0.2", limit=10)
    before = {file: file.stat().st_mtime_ns for file in Path(store.root).rglob("*.safetensors")}
    report = run_locally([extra], store, stored=[TRAINING], options=ExecutorSettings(workers=1))
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

    report = run_locally([long], store, options=ExecutorSettings(workers=1), stop=stop)
    assert report.done == []
    assert report.failed == {}
    assert store.directory(long.training).checkpoint_file.exists()
    assert calls


def test_workers_that_cannot_start_are_one_error_with_their_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken" / "torch"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('libgomp.so.1 is missing')")
    monkeypatch.setenv("PYTHONPATH", str(broken.parent))
    with pytest.raises(WorkerStartError, match=r"workers cannot start(.|\n)*libgomp.so.1 is missing"):
        run_locally([TRAINING], Store(tmp_path / "runs"), options=ExecutorSettings(workers=1))
    assert not (tmp_path / "runs" / "logs").exists()  # no job has failed
    assert descendants(WORKER) == []


def test_a_worker_that_hangs_at_its_start_is_replaced_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "slow" / "torch"
    slow.mkdir(parents=True)
    (slow / "__init__.py").write_text("import time; time.sleep(600)")
    monkeypatch.setenv("PYTHONPATH", str(slow.parent))
    monkeypatch.setattr(local_executor, "START_SECONDS", 0.2)
    with pytest.raises(WorkerStartError, match=r"did not load its modules within 0\.2 seconds"):
        run_locally([TRAINING], Store(tmp_path / "runs"), options=ExecutorSettings(workers=1))
    assert descendants(WORKER) == []


@pytest.mark.parametrize("root", ["file", "file/runs"])
def test_a_store_that_cannot_be_written_is_refused(tmp_path: Path, root: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot write to the store"):
        run_locally([TRAINING], Store(tmp_path / root))


@pytest.mark.slow
def test_a_stop_ends_a_running_evaluation_at_once(finished: tuple[Store, ExecutionReport]) -> None:
    store, _ = finished
    hours = EvaluationJob(training=SPEC, attack="pgd:eps=0.001,steps=1000000")
    running: list[float] = []

    def seen(progress: ExecutionProgress) -> None:
        if progress.running and not running:
            running.append(time.monotonic())

    def stop() -> bool:
        return bool(running) and time.monotonic() - running[0] > 2

    options = ExecutorSettings(workers=1)
    report = run_locally([hours], store, stored=[TRAINING], options=options, callback=seen, stop=stop)
    assert (report.done, report.failed) == ([], {})
    assert time.monotonic() - running[0] < SAVE_SECONDS  # it was asked to end and did, before it would be killed
    assert descendants(WORKER) == []


@pytest.mark.slow
def test_nothing_is_lost_or_done_twice_when_one_worker_in_ten_dies(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert run_locally([TRAINING], store).failed == {}
    jobs: list[Job] = [EvaluationJob(training=SPEC, attack=f"fgsm:eps={i / 1000}", limit=2) for i in range(1, 201)]
    doomed, killed, results = set(jobs[::10]), [], WrittenOnce(tmp_path)

    def kill(progress: ExecutionProgress) -> None:
        results.look()
        mortal = doomed.intersection(progress.running)
        if mortal:
            doomed.difference_update(mortal)
            killed.extend(descendants(WORKER))
            for process in descendants(WORKER)[: len(mortal)]:
                os.kill(process, signal.SIGKILL)

    report = run_locally(jobs, store, stored=[TRAINING], options=ExecutorSettings(workers=2), callback=kill)
    assert len(killed) >= 10
    assert report.failed == {}
    assert sorted(map(repr, report.done)) == sorted(map(repr, jobs))
    assert JobIndex(store).missing(jobs) == []
    results.look()
    assert len(list(tmp_path.glob("*/outcomes/fgsm*.npz"))) == 200
