"""The queue of jobs: order, locks, retries, failures."""

from pathlib import Path

import pytest

from ctrobust.execution import job_queue
from ctrobust.execution.job_queue import ATTEMPTS, JobQueue
from ctrobust.specs import EvaluationJob, Job, TrainingJob, TrainSpec
from ctrobust.store import Store

TRAINING = TrainingJob(training=TrainSpec())
ATTACK = EvaluationJob(training=TrainSpec(), attack="fgsm:eps=0.1")
OTHER = TrainingJob(training=TrainSpec(seed=1))


def queue_of(folder: Path, *jobs: Job) -> JobQueue:
    return JobQueue(jobs, Store(folder), stored=[])


def test_a_job_waits_for_its_training(tmp_path: Path) -> None:
    queue = queue_of(tmp_path, ATTACK, TRAINING)
    assert queue.take() == TRAINING
    assert queue.take() is None
    queue.complete(TRAINING)
    assert queue.take() == ATTACK
    queue.complete(ATTACK)
    assert queue.report.done == [TRAINING, ATTACK]
    assert (queue.waiting, queue.taken, queue.left()) == ([], 0, {})


def test_a_job_is_taken_by_one_process_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_queue, "SECONDS_BETWEEN_TRIES", 0)
    first, second = queue_of(tmp_path, TRAINING, OTHER), queue_of(tmp_path, TRAINING, OTHER)
    assert first.take() == TRAINING
    assert second.take() == OTHER  # passes over the job that is taken
    assert second.take() is None
    assert list(second.elsewhere) == [TRAINING]
    first.fail(TRAINING, "out of memory")
    assert second.take() == TRAINING  # the other process has failed
    second.close()


def test_a_job_that_another_process_has_finished_is_not_run(tmp_path: Path) -> None:
    queue = queue_of(tmp_path, TRAINING)
    run = queue.store.directory(TRAINING.training)
    run.write_spec(TRAINING.training)
    run.record_file.write_text("{}")
    assert queue.take() is None
    assert queue.report.done == [TRAINING]


def test_a_job_whose_workers_die_fails_after_some_attempts(tmp_path: Path) -> None:
    queue = queue_of(tmp_path, TRAINING)
    for _ in range(ATTEMPTS):
        assert queue.take() == TRAINING
        queue.retry(TRAINING, "it was ended by SIGKILL")
    assert queue.take() is None
    assert queue.report.errors == {TRAINING: "it was ended by SIGKILL"}
    assert f"died {ATTEMPTS} times" in queue.report.failed[TRAINING].read_text()


def test_a_postponed_job_is_no_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_queue, "SECONDS_BETWEEN_TRIES", 0)
    queue = queue_of(tmp_path, TRAINING)
    for _ in range(2 * ATTEMPTS):
        assert queue.take() == TRAINING
        queue.postpone(TRAINING)
    assert queue.take() == TRAINING
    assert queue.attempts[TRAINING] == 1
    queue.close()


def test_a_failure_fails_the_jobs_that_need_it_and_a_success_removes_its_log(tmp_path: Path) -> None:
    queue = queue_of(tmp_path, TRAINING, ATTACK, OTHER)
    assert queue.take() == TRAINING
    queue.fail(TRAINING, "DataError: the file is damaged")
    assert list(queue.report.failed) == [TRAINING, ATTACK]
    assert queue.report.errors[ATTACK] == "its training failed: DataError: the file is damaged"
    (log,) = set(queue.report.failed.values())
    assert queue.take() == OTHER
    queue.close()
    again = queue_of(tmp_path, TRAINING)
    assert again.take() == TRAINING
    again.complete(TRAINING)
    assert not log.exists()


def test_a_failure_is_reported_also_where_its_log_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file in the place of the folder")
    queue = queue_of(tmp_path, TRAINING)
    assert queue.take() == TRAINING
    queue.fail(TRAINING, "RunError: No space left on device")
    assert queue.report.errors == {TRAINING: "RunError: No space left on device"}
