"""Expected times, from finished runs in a store."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from ctrobust.execution import evaluate_stored, expand
from ctrobust.execution.expected_time import ExpectedTime, expected_time
from ctrobust.execution.stored_evaluation import evaluation_data
from ctrobust.specs import EmbeddingJob, EvaluationJob, TrainingJob, TrainSpec
from ctrobust.store import RunDirectory, Store

RESULTS = Path(__file__).parents[2] / "results"


def changed(spec: TrainSpec, **fields: Any) -> TrainSpec:
    return TrainSpec.model_validate(spec.model_dump() | fields)


def test_a_training_takes_the_median_seconds_per_epoch_of_its_kind(tmp_path: Path) -> None:
    run = RunDirectory(shutil.copytree(RESULTS / "fashion-dropout", tmp_path / "run"))
    spec, seconds = run.read_spec(), sorted(run.read_record().seconds_per_epoch)
    middle = (seconds[24] + seconds[25]) / 2
    assert len(seconds) == 50
    alike = changed(spec, epochs=7, seed=5, lr=0.3)
    wider = changed(spec, model={"width": 32})
    samples = changed(spec, recipe={"samples": 3})
    jobs = [TrainingJob(training=one) for one in (alike, wider, samples)]
    found = expected_time(jobs, Store(tmp_path)).seconds
    assert found[jobs[0]] == pytest.approx(7 * middle)
    assert found[jobs[1]] is found[jobs[2]] is None


def test_an_evaluation_takes_the_seconds_per_image_of_the_same_attack_and_network(run: Path) -> None:
    test = evaluation_data(run, None, None)
    (row,) = evaluate_stored(run, test, expand(["pgd:eps=0.1,steps=2"], []), limit=20)
    spec = RunDirectory(run).read_spec()
    stronger = EvaluationJob(training=changed(spec, seed=9), attack="pgd:eps=0.3,steps=2", limit=50)
    everything = EvaluationJob(training=spec, attack="pgd:eps=0.3,steps=2")
    longer = EvaluationJob(training=spec, attack="pgd:eps=0.1,steps=3", limit=50)
    embedding = EmbeddingJob(training=spec)
    found = expected_time([stronger, everything, longer, embedding], Store(run.parent)).seconds
    assert row.facts.seconds is not None
    per_image = row.facts.seconds / 20
    assert found[stronger] == pytest.approx(50 * per_image)
    assert found[everything] == pytest.approx(len(test) * per_image)
    assert found[longer] is found[embedding] is None


def test_an_empty_store_and_a_damaged_run_know_nothing(tmp_path: Path) -> None:
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "spec.json").write_text("{")
    job = TrainingJob(training=TrainSpec())
    assert expected_time([job], Store(tmp_path)).seconds == {job: None}
    assert expected_time([], Store(tmp_path / "absent")).seconds == {}


def test_workers_share_the_jobs_and_wait_for_trainings() -> None:
    first, second = TrainSpec(seed=1), TrainSpec(seed=2)
    expected = ExpectedTime(
        {
            TrainingJob(training=first): 100.0,
            TrainingJob(training=second): 10.0,
            EvaluationJob(training=first): 5.0,
            EvaluationJob(training=first, limit=3): 5.0,
            EvaluationJob(training=second): None,
        }
    )
    assert expected.total(1) == 120
    assert expected.total(2) == 105  # the attacks on the first network wait for its training, then share two workers
    assert expected.total(100) == 105
    assert (expected.unmeasured(), expected.unmeasured(TrainingJob), expected.unmeasured(EvaluationJob)) == (1, 0, 1)
