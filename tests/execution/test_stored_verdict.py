"""Verdicts of a run, measured once."""

import shutil
from pathlib import Path

import pytest

from ctrobust import data as datasets
from ctrobust.errors import RunError
from ctrobust.evaluation.masking_measures import MEASURES, Measured
from ctrobust.evaluation.masking_run import MaskingRun
from ctrobust.execution import evaluate_stored, expand, read_weights, run_job, verdict_stored, verdicts_beside
from ctrobust.outcomes.masking_tests import FREE_TESTS
from ctrobust.specs import TrainingJob, VerdictJob, train_spec
from ctrobust.store import JobIndex, RunDirectory, Store, read_verdicts

DIGITS = datasets.load("digits", "test")


class Killed(BaseException):
    """Stands for a signal."""


def test_a_killed_verdict_goes_on_and_ends_the_same(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = shutil.copytree(run, tmp_path / "whole")
    tests = FREE_TESTS[:4]
    expected = verdict_stored(read_weights(whole), DIGITS, eps=0.05, limit=100, tests=tests)

    def kill(_: MaskingRun) -> Measured:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setitem(MEASURES, "unlimited radius", MEASURES["unlimited radius"]._replace(measure=kill))
        with pytest.raises(Killed):
            verdict_stored(read_weights(run), DIGITS, eps=0.05, limit=100, tests=tests)
    (stored,) = read_verdicts(RunDirectory(run))
    assert set(stored.measurements) == set(tests[:3])
    before = stored.measurements["one step beats many"]

    found = verdict_stored(read_weights(run), DIGITS, eps=0.05, limit=100, tests=tests)
    assert [(one.level, one.numbers) for one in found.verdict.evidence] == [
        (one.level, one.numbers) for one in expected.verdict.evidence
    ]
    (stored,) = read_verdicts(RunDirectory(run))
    assert stored.measurements["one step beats many"] == before
    assert stored.verdict == found.verdict
    assert not stored.complete
    assert found.file is not None
    assert found.file.parent == run / "verdicts"


def test_more_tests_are_added_to_those_that_were_run(run: Path) -> None:
    weights = read_weights(run)
    reported: list[str] = []
    verdict_stored(weights, DIGITS, eps="0.05", limit=100, tests=["zero gradients"])
    both = verdict_stored(
        weights, DIGITS, eps=0.05, limit=100, tests=["unlimited radius"],
        progress=lambda _, __, test: reported.append(test),
    )  # fmt: skip
    assert set(reported) == {"unlimited radius", ""}
    assert [one.test for one in both.verdict.evidence if one.level != "not tested"] == [
        "randomized", "zero gradients", "unlimited radius",
    ]  # fmt: skip
    verdict_stored(weights, DIGITS, eps=0.05, limit=100, seed=1, tests=["zero gradients"])
    assert len(read_verdicts(RunDirectory(run))) == 2


def test_a_transfer_attack_belongs_to_the_network_it_was_made_on(run: Path, tmp_path: Path) -> None:
    weights = read_weights(run)
    other = RunDirectory(tmp_path / "other")
    run_job(TrainingJob(training=train_spec({"data": "digits", "limit": 32, "epochs": 1, "model": {"width": 4}})),
            Store(other.path))  # fmt: skip
    (trained,) = Store(other.path).runs()
    verdict_stored(weights, DIGITS, eps=0.05, limit=100, tests=["transfer"], transfer=weights)
    (first,) = read_verdicts(RunDirectory(run))
    assert first.transfer == weights.sha256[:16]
    verdict_stored(weights, DIGITS, eps=0.05, limit=100, tests=["transfer"], transfer=read_weights(trained.path))
    (second,) = read_verdicts(RunDirectory(run))
    assert second.transfer == read_weights(trained.path).sha256[:16]
    verdict_stored(weights, DIGITS, eps=0.05, limit=100, tests=["zero gradients"])
    (third,) = read_verdicts(RunDirectory(run))
    assert third.transfer == second.transfer


def test_stored_verdicts_beside_attacks_at_the_same_radius(run: Path) -> None:
    weights = read_weights(run)
    verdict_stored(weights, DIGITS, eps=0.05, limit=100, tests=["zero gradients"])
    for radius, count in (("0.05", 1), ("0.1", 0)):
        rows = list(evaluate_stored(weights, DIGITS, expand(["fgsm"], [radius]), limit=8))
        assert len(verdicts_beside(weights, DIGITS, rows)) == count
    assert verdicts_beside(weights, DIGITS, list(evaluate_stored(weights, DIGITS, [None], limit=8))) == []


def test_a_weights_file_outside_a_run_stores_nothing(run: Path, tmp_path: Path) -> None:
    file = Path(shutil.copy(run / "model.safetensors", tmp_path / "alone.safetensors"))
    found = verdict_stored(read_weights(file), DIGITS, eps=0.05, limit=100, tests=["zero gradients"])
    assert found.file is None
    assert found.verdict.evidence[1].level == "none found"
    assert not (run / "verdicts").exists()


def test_a_folder_that_cannot_be_written_is_found_before_the_work(run: Path) -> None:
    (run / "verdicts").write_text("")
    with pytest.raises(RunError, match=r"cannot write outcomes to .*verdicts"):
        verdict_stored(read_weights(run), DIGITS, eps=0.05, limit=100, tests=["zero gradients"])


@pytest.mark.slow
def test_a_verdict_job_is_run_once_and_found(tmp_path: Path) -> None:
    store = Store(tmp_path)
    spec = train_spec({"data": "digits", "limit": 256, "epochs": 3, "model": {"width": 4}})
    job = VerdictJob(training=spec, eps=0.05, limit=20)
    run_job(TrainingJob(training=spec), store)
    assert JobIndex(store).missing([job]) == [job]
    run_job(job, store)
    index = JobIndex(store)
    assert index.missing([job, job.model_copy(update={"eps": 0.1})]) == [job.model_copy(update={"eps": 0.1})]
    found = index.verdict(job)
    assert found is not None
    assert found.complete
    assert found.verdict.tests_run == 13
