"""Stored outcomes that are not those that were asked for."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from ctrobust import data as datasets
from ctrobust.attacks import FGSM
from ctrobust.data import Dataset
from ctrobust.errors import RunError
from ctrobust.execution import EvaluationRow, evaluate_stored
from ctrobust.store import EvaluationFacts, StoredEvaluation, write_outcomes

ATTACK = FGSM(eps=0.1)
TOO_MANY = r"\.npz holds 24 examples and is of the first 8"
REMEDY = r"; remove it and the \.json beside it to have them made again"


@pytest.fixture(scope="session")
def digits() -> Dataset:
    return datasets.load("digits", "test")


def attacked(run: Path, data: Dataset, limit: int) -> EvaluationRow:
    (row,) = evaluate_stored(run, data, [ATTACK], limit=limit)
    return row


def files(run: Path, data: Dataset, limit: int) -> tuple[StoredEvaluation, StoredEvaluation]:
    """The stored outcomes of the attack and those of the same clean images."""
    file = attacked(run, data, limit).file
    assert file is not None
    found = StoredEvaluation.read(file)
    assert found.record.clean is not None
    return found, StoredEvaluation.read(file.with_name(found.record.clean))


def rewrite(found: StoredEvaluation, clean: StoredEvaluation | None, of: StoredEvaluation) -> None:
    """Store the outcomes of one evaluation under the name and the spec of another."""
    file = None if clean is None else clean.file
    write_outcomes(found.file, found.record.spec, of.evaluation, file, EvaluationFacts())


def test_more_examples_than_requested_are_refused(run: Path, digits: Dataset) -> None:
    (eight, clean_eight), (more, clean_more) = files(run, digits, 8), files(run, digits, 24)
    rewrite(eight, clean_eight, more)
    rewrite(clean_eight, None, clean_more)
    with pytest.raises(RunError, match="none-.*" + TOO_MANY + REMEDY):
        list(evaluate_stored(run, digits, [None], limit=8))
    with pytest.raises(RunError, match="fgsm-.*" + TOO_MANY + REMEDY):
        attacked(run, digits, 8)


def test_fewer_examples_than_requested_are_refused(run: Path, digits: Dataset) -> None:
    (eight, clean_eight), (more, clean_more) = files(run, digits, 8), files(run, digits, 24)
    rewrite(more, clean_more, eight)
    rewrite(clean_more, None, clean_eight)
    with pytest.raises(RunError, match=r"none-.*\.npz holds 8 examples; the requested .* has 24" + REMEDY):
        list(evaluate_stored(run, digits, [None], limit=24))


def test_other_labels_are_refused(run: Path, digits: Dataset) -> None:
    _, clean = files(run, digits, 12)
    evaluation = dataclasses.replace(clean.evaluation, labels=np.roll(clean.evaluation.labels, 1))
    write_outcomes(clean.file, clean.record.spec, evaluation, None, EvaluationFacts())
    with pytest.raises(RunError, match=r"none-.*\.npz holds other labels than the requested .*" + REMEDY):
        list(evaluate_stored(run, digits, [None], limit=12))


def test_an_attack_on_other_clean_images_is_refused(run: Path, digits: Dataset) -> None:
    (eight, clean), (_, other) = files(run, digits, 8), files(run, digits, 9)
    rewrite(eight, other, eight)
    message = rf"fgsm-.*\.npz refers to the clean outcomes {other.file.name}; .* are {clean.file.name}" + REMEDY
    with pytest.raises(RunError, match=message):
        attacked(run, digits, 8)
    rewrite(eight, clean, eight)
    assert attacked(run, digits, 8).seconds is None
    clean.file.unlink()
    with pytest.raises(RunError, match=rf"fgsm-.*\.npz refers to .* {clean.file.name}, which are missing" + REMEDY):
        attacked(run, digits, 8)


def test_clean_outcomes_that_round_otherwise_decide_which_examples_were_attacked(run: Path, digits: Dataset) -> None:
    """One correctly classified image of a near tie, as another number of threads would classify it."""
    found, clean = files(run, digits, 40)
    flipped = int(np.flatnonzero(found.evaluation.clean_correct)[0])
    prediction = clean.evaluation.clean_prediction.copy()
    prediction[flipped] = (prediction[flipped] + 1) % 10
    changed = dataclasses.replace(clean.evaluation, clean_prediction=prediction)
    write_outcomes(clean.file, clean.record.spec, changed, None, EvaluationFacts())
    found.file.unlink()
    again = attacked(run, digits, 40)
    assert again.file is not None
    assert again.evaluation.probabilities is not None
    assert not again.evaluation.robust[flipped]
    assert again.evaluation.accuracy == pytest.approx(found.record.summary.accuracy - 1 / 40)
    assert StoredEvaluation.read(again.file).record.summary.accuracy == again.evaluation.accuracy
