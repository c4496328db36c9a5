"""Attacks on some of the examples, and what remains of them."""

from pathlib import Path

import numpy as np
import pytest

from ctrobust.attacks import FGSM, PGD
from ctrobust.data import Dataset
from ctrobust.evaluation import evaluate
from ctrobust.evaluation.masking_run import MaskingRun
from ctrobust.outcomes import Measurement
from tests.evaluation.planted_models import trained


@pytest.fixture
def run(planted_folder: Path, digits: Dataset) -> MaskingRun:
    return MaskingRun(
        trained("natural", planted_folder), digits, eps=0.05, norm="linf", limit=40, seed=0, chunk=16, randomized=False
    )


def test_attacks_on_all_examples_are_those_of_an_evaluation(
    run: MaskingRun, planted_folder: Path, digits: Dataset
) -> None:
    model = trained("natural", planted_folder)
    for attack, same in ((run.pgd(), PGD(0.05)), (run.fgsm(), FGSM(0.05))):
        run.begin(1)
        expected = evaluate(model, digits, same, limit=40, chunk=16)
        np.testing.assert_array_equal(run.robust(attack, run.correct), expected.robust)
        assert run.backwards == expected.backwards.sum()


def test_only_the_chosen_examples_are_attacked_with_the_same_draws(run: MaskingRun) -> None:
    whole = run.robust(run.pgd(), run.correct)
    some = run.correct & (np.arange(40) % 3 == 0)
    run.begin(1)
    np.testing.assert_array_equal(run.robust(run.pgd(), some), whole & some)
    assert 0 < run.backwards <= 20 * some.sum()


def test_remaining_examples_are_robust_under_every_gradient_attack_in_the_ball(run: MaskingRun) -> None:
    mask = np.arange(40) < 30
    run.measured["one step beats many"] = Measurement({"correct": run.correct, "fgsm": run.correct, "pgd": mask})
    run.measured["unlimited radius"] = Measurement({"pgd": np.zeros(40, dtype=np.bool_)})
    np.testing.assert_array_equal(run.remaining(), run.correct & mask)
    run.measured["loss decides"] = Measurement({"ce": np.arange(40) > 5, "margin": np.arange(40) > 9})
    np.testing.assert_array_equal(run.remaining(), run.correct & mask & (np.arange(40) > 9))


def test_progress_counts_the_attacks_of_a_test(run: MaskingRun) -> None:
    shares: list[float] = []
    run.report = shares.append
    run.begin(2)
    run.robust(run.pgd(), run.correct)
    assert shares[-1] == 0.5
    run.robust(run.pgd(), run.correct)
    assert shares[-1] == 1.0
    assert shares == sorted(shares)
