"""Outcomes and their records on disk."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from ctrobust.errors import RunError
from ctrobust.outcomes import Evaluation
from ctrobust.specs import EvaluationSpec, spec_hash
from ctrobust.store import EvaluationFacts, RunDirectory, StoredEvaluation, write_outcomes

CLEAN = EvaluationSpec(data="digits", attack="none", weights="ab" * 8)
ATTACKED = EvaluationSpec(data="digits", attack="pgd:eps=8/255", weights="ab" * 8)
FACTS = EvaluationFacts(
    classes=tuple("0123456789"), seconds=1.5, cpu_seconds=2.5, environment={"torch": "2"}, fused=True,
    fused_logit_difference=1e-6, left_out=(),
)  # fmt: skip


def outcomes(count: int = 50, classes: int = 10) -> Evaluation:
    """Every tenth example is misclassified without an attack and so was not attacked."""
    rng = np.random.default_rng(0)
    clean, attacked = (
        (lambda z: np.exp(z) / np.exp(z).sum(1, keepdims=True))(4 * rng.standard_normal((count, classes)))
        for _ in range(2)
    )
    unattacked = np.arange(count) % 10 == 9
    attacked[unattacked] = clean[unattacked]
    return Evaluation(
        labels=np.where(unattacked, (clean.argmax(1) + 1) % classes, clean.argmax(1)),
        clean_probabilities=clean.astype(np.float32),
        probabilities=attacked.astype(np.float32),
        clean_prediction=clean.argmax(1),
        prediction=attacked.argmax(1),
        distance=np.full(count, 8 / 255, dtype=np.float32),
        forwards=np.where(rng.random(count) < 0.5, 21, rng.integers(1, 21, count)),
        backwards=np.where(rng.random(count) < 0.5, 20, rng.integers(0, 20, count)),
        unconfirmed=rng.random(count) < 0.1,
    )


def stored(folder: Path, evaluation: Evaluation, *, keep_probabilities: bool = True) -> StoredEvaluation:
    run = RunDirectory(folder)
    clean, attacked = run.outcomes_file(CLEAN), run.outcomes_file(ATTACKED)
    write_outcomes(clean, CLEAN, evaluation, None, FACTS)
    return write_outcomes(attacked, ATTACKED, evaluation, clean, FACTS, keep_probabilities=keep_probabilities)


def test_outcomes_come_back_with_attacked_probabilities_in_half_precision(tmp_path: Path) -> None:
    evaluation = outcomes()
    found = StoredEvaluation.read(stored(tmp_path, evaluation).file).evaluation
    for name, array in evaluation.arrays().items():
        expected = array.copy()
        if name == "probabilities":
            expected[evaluation.clean_correct] = array[evaluation.clean_correct].astype(np.float16)
        np.testing.assert_array_equal(found.arrays()[name], expected, err_msg=name)
        assert found.arrays()[name].dtype == array.dtype


def test_clean_outcomes_are_an_evaluation_without_an_attack(tmp_path: Path) -> None:
    evaluation = outcomes()
    stored(tmp_path, evaluation)
    clean = StoredEvaluation.read(RunDirectory(tmp_path).outcomes_file(CLEAN)).evaluation
    np.testing.assert_array_equal(clean.probabilities, evaluation.clean_probabilities)
    assert clean.robust_accuracy == clean.accuracy == evaluation.accuracy
    assert clean.forwards.sum() == clean.distance.sum() == 0


def test_the_record_describes_the_outcomes_by_itself(tmp_path: Path) -> None:
    file = stored(tmp_path, outcomes()).file
    content = json.loads(file.with_suffix(".json").read_text())
    assert content["spec"]["attack"] == "pgd:eps=8/255"
    assert content["hash"] == spec_hash(ATTACKED)
    assert content["summary"]["robust_accuracy"] == outcomes().robust_accuracy
    assert content["summary"]["interval"] == [outcomes().interval.low, outcomes().interval.high]
    assert (content["seconds"], content["cpu_seconds"]) == (1.5, 2.5)
    assert (content["fused"], content["fused_logit_difference"]) == (True, 1e-6)
    assert (content["left_out"], content["environment"]) == ([], {"torch": "2"})
    assert content["clean"].startswith("none-")
    assert StoredEvaluation.read(file).record.spec == ATTACKED


def test_an_attack_on_1000_examples_of_10_classes_takes_at_most_20_kb(tmp_path: Path) -> None:
    file = stored(tmp_path, outcomes(1000)).file
    assert file.stat().st_size <= 20_000


def test_probabilities_can_be_left_out(tmp_path: Path) -> None:
    found = stored(tmp_path, outcomes(1000), keep_probabilities=False)
    assert found.record.probabilities == "none"
    assert found.evaluation.probabilities is None
    assert found.evaluation.robust_accuracy == outcomes(1000).robust_accuracy
    assert found.file.stat().st_size <= 6_000


def test_a_changed_byte_is_noticed(tmp_path: Path) -> None:
    found = stored(tmp_path, outcomes())
    content = bytearray(found.file.read_bytes())
    content[len(content) // 2] ^= 1
    found.file.write_bytes(content)
    with pytest.raises(RunError, match=r"is damaged: its SHA-256 is .*, the record says"):
        _ = StoredEvaluation.read(found.file).evaluation


def test_a_changed_number_in_a_record_is_noticed(tmp_path: Path) -> None:
    file = stored(tmp_path, outcomes()).file
    text = file.with_suffix(".json").read_text()
    assert '"forwards": ' in text
    file.with_suffix(".json").write_text(text.replace('"forwards": ', '"forwards": 1'))
    with pytest.raises(RunError, match=r"\.json is damaged: its checksum is not that of its fields"):
        StoredEvaluation.read(file)
    file.with_suffix(".json").write_text(json.dumps(json.loads(text)))  # only the layout differs
    assert StoredEvaluation.read(file).record.spec == ATTACKED


def test_a_record_of_another_count_is_noticed(tmp_path: Path) -> None:
    file = stored(tmp_path, outcomes()).file.with_suffix(".json")
    content = json.loads(file.read_text().replace('"count": 50', '"count": 8'))
    del content["sha256"]  # as earlier versions wrote it
    file.write_text(json.dumps(content))
    with pytest.raises(RunError, match="holds 50 examples and its record 8"):
        _ = StoredEvaluation.read(file.with_suffix(".npz")).evaluation


def test_more_examples_than_the_limit_are_refused(tmp_path: Path) -> None:
    file = stored(tmp_path, outcomes()).file.with_suffix(".json")
    content = json.loads(file.read_text())
    del content["sha256"]
    content["spec"]["limit"] = 8
    file.write_text(json.dumps(content))
    with pytest.raises(RunError, match="holds 50 examples and is of the first 8"):
        _ = StoredEvaluation.read(file.with_suffix(".npz")).evaluation


@pytest.mark.parametrize("content", ["", "{}", "[]", "null", "[" * 10_000, '{"version": 9}'])
def test_a_damaged_record_is_named(tmp_path: Path, content: str) -> None:
    file = stored(tmp_path, outcomes()).file
    file.with_suffix(".json").write_text(content)
    with pytest.raises(RunError, match=r"\.json is damaged or of another version"):
        StoredEvaluation.read(file)


def test_missing_clean_outcomes_are_named(tmp_path: Path) -> None:
    file = stored(tmp_path, outcomes()).file
    RunDirectory(tmp_path).outcomes_file(CLEAN).unlink()
    with pytest.raises(RunError, match="none-"):
        _ = StoredEvaluation.read(file).evaluation


def test_arrays_without_their_record_are_not_finished(tmp_path: Path) -> None:
    file = stored(tmp_path, outcomes()).file
    run = RunDirectory(tmp_path)
    assert [one.attack for one in run.evaluations()] == ["none", "pgd:eps=8/255"]
    file.with_suffix(".json").unlink()  # killed between the two writes
    assert [one.attack for one in run.evaluations()] == ["none"]
    assert run.find_evaluation(ATTACKED) is None


def test_a_record_under_another_name_is_not_taken_for_the_evaluation(tmp_path: Path) -> None:
    file = stored(tmp_path, outcomes()).file
    run, other = RunDirectory(tmp_path), ATTACKED.model_copy(update={"limit": 8})
    for suffix in (".npz", ".json"):
        shutil.copy(file.with_suffix(suffix), run.outcomes_file(other).with_suffix(suffix))
    with pytest.raises(RunError, match="describes another evaluation than its name"):
        run.find_evaluation(other)
    assert run.find_evaluation(ATTACKED) is not None
    assert run.find_evaluation(ATTACKED.model_copy(update={"limit": 9})) is None
