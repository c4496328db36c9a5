"""Which jobs are left to run."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ctrobust.specs import EvaluationJob, TrainingJob, VerdictJob
from ctrobust.store import JobIndex, RunDirectory, Store

STORED = RunDirectory(Path(__file__).parents[2] / "results" / "fashion-mdl")
TRAINING = TrainingJob(training=STORED.read_spec())
STORED_ATTACK = EvaluationJob(training=TRAINING.training, attack="fgsm:eps=8/255", limit=1000, chunk=250)
ATTACK = EvaluationJob(training=TRAINING.training, attack="fgsm:eps=0.3", limit=10)
VERDICT = VerdictJob(training=TRAINING.training, eps=0.3)


@pytest.fixture
def copied(tmp_path: Path) -> Callable[..., Path]:
    """Copies the run without some of its files into a directory of its own."""

    def copy(name: str, *left_out: str) -> Path:
        ignored = shutil.ignore_patterns(*left_out)
        return Path(shutil.copytree(STORED.path, tmp_path / name / "run", ignore=ignored)).parent

    return copy


def test_a_finished_training_with_its_weights_is_not_run_again(copied: Callable[..., Path]) -> None:
    index = JobIndex(Store(copied("runs")))
    assert index.missing([TRAINING, STORED_ATTACK]) == []
    assert index.missing([TRAINING, ATTACK, VERDICT]) == [ATTACK, VERDICT]


def test_a_training_whose_weights_were_not_kept_is_run_again_only_where_a_job_needs_them(
    copied: Callable[..., Path],
) -> None:
    index = JobIndex(Store(copied("runs", "model.safetensors")))
    assert index.missing([TRAINING, STORED_ATTACK]) == []
    assert index.missing([TRAINING, STORED_ATTACK, ATTACK]) == [TRAINING, ATTACK]
    assert index.missing([TRAINING, VERDICT]) == [TRAINING, VERDICT]
    assert index.trained(ATTACK) is None


def test_weights_of_any_directory_of_the_store_count(copied: Callable[..., Path]) -> None:
    records, weights = copied("records", "model.safetensors"), copied("weights", "outcomes")
    index = JobIndex(Store(records, (weights,)))
    assert index.missing([TRAINING, ATTACK]) == [ATTACK]
    assert index.trained(ATTACK) == RunDirectory(weights / "run")


def test_outcomes_of_every_finished_run_of_a_training_are_found(copied: Callable[..., Path]) -> None:
    """A training that was repeated on another processor has other weights than the stored outcomes."""
    again, before = copied("again", "outcomes"), copied("before", "model.safetensors")
    record = RunDirectory(again / "run").read_record()
    RunDirectory(again / "run").write_record(record.model_copy(update={"weights_sha256": "0" * 64}))
    index = JobIndex(Store(again, (before,)))
    found = index.evaluation(STORED_ATTACK)
    assert found is not None
    assert found.file.is_relative_to(before)
