"""Measurements share attacks: what an earlier test found is not computed again."""

from pathlib import Path

import numpy as np
import pytest

from ctrobust.data import Dataset
from ctrobust.evaluation.masking_measures import MEASURES, MOST_REMAINING
from ctrobust.evaluation.masking_run import MaskingRun
from ctrobust.outcomes import MASKING_TESTS, Measurement
from tests.evaluation.planted_models import trained


@pytest.fixture
def run(planted_folder: Path, digits: Dataset) -> MaskingRun:
    return MaskingRun(
        trained("natural", planted_folder), digits, eps=0.05, norm="linf", limit=90, seed=0, chunk=90, randomized=False
    )


def test_every_test_but_the_first_is_measured_here() -> None:
    assert ["randomized", *MEASURES] == list(MASKING_TESTS)


def test_more_effort_attacks_only_what_pgd_leaves(run: MaskingRun) -> None:
    pgd = run.correct & (np.arange(90) < 6)
    run.measured["one step beats many"] = Measurement({"correct": run.correct, "fgsm": run.correct, "pgd": pgd})
    run.begin(2)
    arrays, _ = MEASURES["more effort helps"].measure(run)
    np.testing.assert_array_equal(arrays["pgd"], pgd)
    assert not (arrays["steps"] & ~pgd).any()
    assert run.backwards <= pgd.sum() * (40 + 4 * 20)


def test_noise_is_tried_on_a_bounded_number_of_remaining_examples(
    run: MaskingRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctrobust.evaluation.masking_measures.NOISE_DRAWS", 3)
    run.begin(1)
    arrays, _ = MEASURES["noise"].measure(run)
    assert arrays["remaining"].sum() == run.correct.sum() > MOST_REMAINING
    assert arrays["tested"].sum() == MOST_REMAINING
    assert not (arrays["tested"] & ~arrays["remaining"]).any()
    assert run.forwards <= MOST_REMAINING * 4


def test_radii_reuse_the_attacks_at_eps(run: MaskingRun) -> None:
    marked = run.correct & (np.arange(90) % 2 == 0)
    run.measured["one step beats many"] = Measurement({"correct": run.correct, "fgsm": marked, "pgd": marked})
    arrays, _ = MEASURES["radius does not help"].measure(run)
    np.testing.assert_array_equal(arrays["pgd_eps"], marked)
    np.testing.assert_array_equal(arrays["fgsm_eps"], marked)
    assert arrays["pgd_half"].sum() > arrays["pgd_double"].sum()
