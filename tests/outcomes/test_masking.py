"""Verdicts, evidence and measurements as values."""

import json

import numpy as np
import pytest

from ctrobust.errors import InputError
from ctrobust.outcomes import Evidence, MaskingSetting, Measurement, Verdict
from ctrobust.outcomes.masking import LEVELS, Level

SETTING = MaskingSetting(8 / 255, "linf", 256, 10, seed=3)


def verdict(level: Level, *levels: Level) -> Verdict:
    evidence = tuple(
        Evidence(f"test {number}", one, f"Sentence {number}.", {"share": 0.25, "count": 3, "best": "dlr"}, 1.5, 7, 5)
        for number, one in enumerate(levels)
    )
    return Verdict(level, evidence, SETTING)


def test_a_verdict_survives_json() -> None:
    before = verdict("suspicious", "none found", "suspicious", "not tested")
    after = Verdict.from_dict(json.loads(json.dumps(before.to_dict())))
    assert after == before
    assert isinstance(after.evidence[0].numbers["count"], int)


def test_a_verdict_counts_its_tests_and_their_cost() -> None:
    found = verdict("suspicious", "none found", "suspicious", "not tested")
    assert (found.tests_run, found.tests_total) == (2, 3)
    assert found.seconds == 4.5
    assert found.to_dict()["tests_run"] == 2


@pytest.mark.parametrize(
    ("found", "summary"),
    [
        (verdict("none found", "none found", "not tested"), "No masking found by the 1 tests run (of 2)."),
        (verdict("masked", "masked", "suspicious"), "Masked, by 2 of the 2 tests run (of 2): test 0, test 1."),
        (
            verdict("not tested", "none found"),
            "Not tested: the 1 tests run (of 1) are fewer than a verdict needs; they found no masking.",
        ),
    ],
)
def test_the_summary_names_what_raised_the_level(found: Verdict, summary: str) -> None:
    assert found.summary == summary


def test_no_level_calls_robustness_real() -> None:
    assert not any("real" in level or "robust" in level for level in LEVELS)


def test_a_measurement_survives_json() -> None:
    arrays = {"robust": np.array([True, False, True]), "gain": np.array([0.125, 1e-9, 3.0])}
    before = Measurement(arrays, 0.25, 12, 8, "A remark.")
    values = json.loads(json.dumps(before.to_dict()))
    assert values["arrays"] == {"robust": "101", "gain": "[0.125, 1e-09, 3]"}
    after = Measurement.from_dict(values)
    assert (after.seconds, after.forwards, after.backwards, after.remark) == (0.25, 12, 8, "A remark.")
    assert after.arrays["robust"].dtype == np.bool_
    for name, array in arrays.items():
        np.testing.assert_array_equal(after.arrays[name], array)


@pytest.mark.parametrize("value", ["012", '["a"]', "[1", 3, None, "{}"])
def test_an_array_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(InputError, match="the array robust of a measurement"):
        Measurement.from_dict({"arrays": {"robust": value}, "seconds": 0, "forwards": 0, "backwards": 0, "remark": ""})
