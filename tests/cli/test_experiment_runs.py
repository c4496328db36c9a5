"""How commands report jobs that failed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ctrobust.cli.experiment_runs import SHOWN_FAILURES
from ctrobust.execution import ExecutionReport
from ctrobust.execution.executors import EXECUTORS
from ctrobust.execution.job_queue import JobQueue
from ctrobust.experiments import experiment
from ctrobust.specs import Job, required_training, spec_hash
from ctrobust.store import Store
from tests.cli.command import Inside

MODEL = experiment("table7", "smoke").all_cells[0].jobs[0].training
"""The naturally trained model of table 7, which 20 attacks need."""


def test_a_failed_training_is_one_entry_with_the_jobs_and_cells_that_need_it(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_one_training(jobs: Sequence[Job], store: Store, **_: Any) -> ExecutionReport:
        queue = JobQueue(jobs, store, [])
        training = next(job for job in jobs if job == required_training(job) and job.training == MODEL)
        queue.waiting.remove(training)
        queue.fail(training, "Traceback\nOSError: the cable is cut")
        return queue.report

    monkeypatch.setitem(EXECUTORS, "local", fail_one_training)
    done = inside("reproduce table7 --preset smoke --render csv")
    assert done.code == 6
    hashes = spec_hash(MODEL), spec_hash(required_training(experiment("table7", "smoke").all_cells[0].jobs[0]))
    assert done.err.splitlines() == [
        f"error: train digits mnistnet natural {hashes[0]} failed: OSError: the cable is cut",
        "  and with it 20 jobs on its weights",
        f"  log: runs/logs/{hashes[1]}.txt",
        "  cells: table7 (FGSM CE, NT), table7 (FGSM SCE, NT), table7 (FGSM KL, NT), table7 (FGSM SKL, NT), "
        "table7 (FGSM STD, NT), table7 (PGD CE, NT) and 14 others",
        "error: 21 of 85 jobs failed; run the command again to repeat them",
    ]
    assert done.out.count(",failed,") == 20


def test_many_failures_are_counted_and_a_log_that_was_not_written_is_not_named(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_everything(jobs: Sequence[Job], store: Store, **_: Any) -> ExecutionReport:
        report = ExecutionReport()
        for job in jobs:
            report.failed[job] = store.root / "logs" / f"{spec_hash(job)}.txt"
            report.errors[job] = "RunError: No space left on device"
        return report

    monkeypatch.setitem(EXECUTORS, "local", fail_everything)
    done = inside("reproduce table7 --preset smoke --render csv")
    assert done.code == 6
    assert "log:" not in done.err
    assert done.err.count("No space left on device") == SHOWN_FAILURES
    assert f"{85 - SHOWN_FAILURES} more jobs failed; logs are in {Path('runs/logs')}" in done.err
