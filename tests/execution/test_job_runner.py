"""Jobs in run directories."""

from pathlib import Path

import pytest

from ctrobust.errors import InputError
from ctrobust.execution import ExecutorSettings, run_job, run_locally
from ctrobust.specs import EvaluationJob, TrainingJob
from ctrobust.store import JobIndex, RunDirectory, Store


def test_a_training_is_repeated_for_a_job_that_needs_weights_which_were_not_kept(run: Path, tmp_path: Path) -> None:
    """As with committed results, which hold records and outcomes of more networks than weights."""
    kept = RunDirectory(run)
    weights = kept.model_file.read_bytes()
    kept.model_file.unlink()
    kept.checkpoint_file.unlink()
    training = TrainingJob(training=kept.read_spec())
    attack = EvaluationJob(training=training.training, attack="fgsm:eps=0.1", limit=5)
    store = Store(tmp_path / "runs", (run,))
    with pytest.raises(InputError, match="no finished run of the training that this job needs has its last weights"):
        run_job(attack, store)
    jobs = JobIndex(store).missing([training, attack])
    assert jobs == [training, attack]
    report = run_locally(jobs, store, options=ExecutorSettings(workers=1))
    assert (report.failed, report.done) == ({}, [training, attack])
    assert store.directory(training.training).model_file.read_bytes() == weights
    assert JobIndex(store).missing([training, attack]) == []
    assert not kept.model_file.exists()
