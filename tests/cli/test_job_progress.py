"""Progress of jobs, in a terminal and in a file."""

import io
import re
import time
from dataclasses import replace

import pytest
from rich.console import Console

from ctrobust.cli import job_progress
from ctrobust.execution import ExecutionProgress, ExecutionReport, WorkerActivity
from ctrobust.specs import EvaluationJob, Job, TrainingJob, TrainSpec, spec_hash

TRAINING = TrainingJob(training=TrainSpec())
ATTACK = EvaluationJob(training=TrainSpec(seed=1), attack="apgd:eps=8/255,steps=5,loss=sce(gamma=5)")
DONE: list[Job] = [TrainingJob(training=TrainSpec(seed=seed)) for seed in (2, 3)]


def progress(*running: Job | None, done: list[Job], total: int, elsewhere: int = 0) -> ExecutionProgress:
    """Workers that have run their jobs for an hour; a training takes twice as long, and so does an evaluation."""
    started = time.monotonic() - 3600
    workers = tuple(WorkerActivity(f"worker {i + 1}", job, started) for i, job in enumerate(running))
    seconds: dict[type[Job], float] = {TrainingJob: 7200.0, EvaluationJob: 7200.0}
    left: dict[type[Job], int] = {TrainingJob: 1, EvaluationJob: 1} if len(done) < total else {}
    return ExecutionProgress(ExecutionReport(done=done), total, workers, elsewhere, seconds, left)


@pytest.fixture
def console(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Console:
    """Where messages go: a terminal of 80 columns, or a file."""
    found = Console(file=io.StringIO(), width=80, force_terminal=request.param, color_system=None)
    monkeypatch.setattr(job_progress, "messages", found)
    return found


def text_of(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return to_the_hour(console.file.getvalue())


def to_the_hour(text: str) -> str:
    """Replace the minutes and seconds of a clock, which a busy machine may change: 0:59:58 becomes 1h."""
    return re.sub(r"(\d):(\d\d):\d\d", lambda found: f"{int(found[1]) + (int(found[2]) > 30)}h", text)


@pytest.mark.parametrize("console", [True], indirect=True)
def test_a_terminal_shows_jobs_the_remaining_time_and_what_each_worker_does(console: Console) -> None:
    with job_progress.job_progress() as report:
        report(progress(TRAINING, ATTACK, None, done=DONE, total=4, elsewhere=1))
        display = job_progress._display(progress(TRAINING, ATTACK, None, done=DONE, total=4, elsewhere=1))
    assert to_the_hour(display.plain).splitlines() == [
        "2 of 4 jobs, 1 run by another process, ETA 1h",
        "  worker 1: 1h, train digits mnistnet natural c7611c4bacd28e09",
        "  worker 2: 1h, attack with apgd:eps=8/255,steps=5,loss=sce(gamma=5): digits mnistnet natural "
        f"{spec_hash(ATTACK.training)}",
        "  worker 3: waits",
    ]
    assert "worker 2: 1h, attack with apgd:eps=8/255,steps=5,loss=sce(gamma=5): " in text_of(console)  # in 80 columns


@pytest.mark.parametrize("console", [False], indirect=True)
def test_a_file_gets_a_line_from_time_to_time_and_one_at_the_end(console: Console) -> None:
    with job_progress.job_progress() as report:
        for _ in range(3):
            report(progress(TRAINING, None, None, done=DONE, total=4))
        report(progress(None, None, None, done=[*DONE, TRAINING, ATTACK], total=4))
    assert text_of(console).splitlines() == [
        "2 of 4 jobs, ETA 1h. worker 1: 1h, train digits mnistnet natural c7611c4bacd28e09",
        "4 of 4 jobs",
    ]


@pytest.mark.parametrize("console", [False], indirect=True)
def test_the_remaining_time_is_a_bound_until_a_job_of_each_kind_has_finished(console: Console) -> None:
    now = progress(TRAINING, None, None, done=DONE, total=4)
    cases: list[tuple[dict[type[Job], float], str]] = [
        ({}, "ETA not known yet"),
        ({TrainingJob: 14400.0}, "ETA more than 1h"),
    ]
    for measured, text in cases:
        with job_progress.job_progress() as report:
            report(replace(now, mean_seconds=measured))
        assert f"2 of 4 jobs, {text}. worker 1" in text_of(console)
