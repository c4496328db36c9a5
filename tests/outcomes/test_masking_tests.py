"""The verdict that follows from several tests."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from ctrobust.outcomes import MASKING_TESTS, THRESHOLDS, MaskingSetting, Measurement, assess_masking
from ctrobust.outcomes.masking_tests import CORE_TESTS, FREE_TESTS, RANDOMIZED_TESTS, is_complete
from tests.outcomes.test_masking_findings import CASES, N, first

SETTING = MaskingSetting(0.1, "linf", N, 10)


def measured(**levels: str) -> dict[str, Measurement]:
    """A measurement of each test, by default one that raises nothing; names have underscores for spaces."""
    wanted = {name.replace("_", " "): level for name, level in levels.items()}
    return {
        test: Measurement(next(a for t, a, level in CASES if (t, level) == (test, wanted.get(test, "none found"))), 1.0)
        for test in MASKING_TESTS
    }


def without(measurements: Mapping[str, Measurement], *tests: str) -> dict[str, Measurement]:
    return {test: one for test, one in measurements.items() if test not in tests}


def test_nothing_found_by_any_test() -> None:
    verdict = assess_masking(measured(), SETTING)
    assert verdict.level == "none found"
    assert [one.test for one in verdict.evidence] == list(MASKING_TESTS)
    assert verdict.tests_run == verdict.tests_total == len(MASKING_TESTS) == 14
    assert verdict.seconds == 14


@pytest.mark.parametrize(
    ("levels", "level"),
    [
        ({"noise": "suspicious"}, "suspicious"),
        ({"noise": "suspicious", "zero_gradients": "masked"}, "masked"),
        ({"silent_success": "suspicious"}, "suspicious"),
    ],
)
def test_the_strongest_test_decides(levels: dict[str, str], level: str) -> None:
    assert assess_masking(measured(**levels), SETTING).level == level


@pytest.mark.parametrize("test", CORE_TESTS)
def test_without_a_core_test_nothing_is_said(test: str) -> None:
    verdict = assess_masking(without(measured(), test), SETTING)
    assert verdict.level == "not tested"
    assert verdict.tests_run == 13


@pytest.mark.parametrize("test", sorted(set(MASKING_TESTS) - set(CORE_TESTS)))
def test_other_tests_may_be_left_out(test: str) -> None:
    assert assess_masking(without(measured(), test), SETTING).level == "none found"


def test_signs_count_also_without_the_core_tests() -> None:
    free = {test: one for test, one in measured(zero_gradients="masked").items() if test in FREE_TESTS}
    assert assess_masking(free, SETTING).level == "masked"
    assert assess_masking({}, SETTING).level == "not tested"


def test_a_remark_follows_the_sentence() -> None:
    one = measured()["loss decides"]
    verdict = assess_masking({"loss decides": Measurement(one.arrays, remark="DLR was left out.")}, SETTING)
    (evidence,) = [entry for entry in verdict.evidence if entry.test == "loss decides"]
    assert evidence.sentence.endswith(". DLR was left out.")


def test_reasons_why_a_test_was_not_run() -> None:
    reasons = {one.test: one.sentence for one in assess_masking({}, SETTING).evidence}
    assert "needs another network" in reasons["transfer"]
    assert reasons["noise"] == "It was not run."
    random = {"randomized": Measurement({"distance": np.ones(3)})}
    reasons = {one.test: one.sentence for one in assess_masking(random, SETTING).evidence}
    assert "draws at random" in reasons["binarization"]
    assert reasons["noise"] == "It was not run."


def test_a_verdict_is_complete_with_all_tests_that_need_no_other_network() -> None:
    everything: dict[str, Any] = measured()
    assert is_complete(without(everything, "transfer"), SETTING)
    assert not is_complete(without(everything, "binarization"), SETTING)
    randomized = {test: one for test, one in everything.items() if test in RANDOMIZED_TESTS}
    assert is_complete(randomized, MaskingSetting(0.1, "linf", 64, 10, repeats=20))
    assert not is_complete(randomized, SETTING)


def test_thresholds_and_tests_have_the_same_names_in_the_same_order() -> None:
    assert list(THRESHOLDS) == list(MASKING_TESTS)


def test_a_network_that_guesses_is_not_tested_but_may_be_masked() -> None:
    few = first(24)  # 12% of 200 in 10 classes
    guessing = {"zero gradients": Measurement({"correct": few, "ce": few & False, "margin": few & False})}
    verdict = assess_masking({**measured(), **guessing}, SETTING)
    assert verdict.level == "not tested"
    assert verdict.summary == (
        "Not tested: the network classifies 24 of 200 images correctly, which guessing may do as well."
    )
    assert assess_masking({**measured(noise="masked"), **guessing}, SETTING).level == "masked"
