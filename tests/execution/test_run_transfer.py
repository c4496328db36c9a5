"""Run directories as bytes."""

from pathlib import Path

import pytest

from ctrobust.errors import RunError
from ctrobust.execution.job_runner import run_job
from ctrobust.execution.run_transfer import needed_files, new_files, store_files, write_files
from ctrobust.specs import EmbeddingJob, EvaluationJob, Job, TrainingJob, VerdictJob
from ctrobust.store import JobIndex, RunDirectory, Store


@pytest.mark.parametrize("kind", [EvaluationJob, EmbeddingJob])
def test_a_job_that_needs_weights_runs_on_what_it_is_sent_and_its_result_is_stored(
    kind: type[EvaluationJob | EmbeddingJob], run: Path, tmp_path: Path
) -> None:
    store, elsewhere = Store(run.parent), Store(tmp_path / "elsewhere")
    job = kind(training=RunDirectory(run).read_spec(), limit=8)
    sent = needed_files(job, store)
    assert {"spec.json", "record.json", "model.safetensors"} <= set(sent)
    there = elsewhere.directory(job.training)
    write_files(there, sent)
    run_job(job, elsewhere)
    made = new_files(there, sent)
    assert made
    assert not set(made) & set(sent)
    store_files(job, store, made)
    assert JobIndex(Store(run.parent)).missing([job]) == []


def test_a_verdict_is_sent_the_weights_and_its_result_replaces_nothing(run: Path) -> None:
    job, store = VerdictJob(training=RunDirectory(run).read_spec()), Store(run.parent)
    sent = needed_files(job, store)
    assert "model.safetensors" in sent
    store_files(job, store, {"verdicts/one.json": b"{}", "record.json": b"another"})
    assert (run / "verdicts" / "one.json").read_bytes() == b"{}"
    assert (run / "record.json").read_bytes() == sent["record.json"]


def test_a_training_is_sent_nothing(run: Path) -> None:
    job: Job = TrainingJob(training=RunDirectory(run).read_spec())
    assert needed_files(job, Store(run.parent)) == {}


@pytest.mark.parametrize("name", ["/etc/passwd", "../other/record.json"])
def test_a_file_outside_the_run_directory_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="not below its run directory"):
        write_files(RunDirectory(tmp_path / "run"), {name: b""})
    assert list(tmp_path.iterdir()) == []
