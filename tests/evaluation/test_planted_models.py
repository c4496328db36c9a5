"""The check-by-model matrix: every planted network is caught by the test that must catch it, honest ones by none."""

from pathlib import Path

import pytest

import ctrobust as ct
from ctrobust.data import Dataset
from tests.evaluation.planted_models import PLANTED


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_the_verdict_on_a_planted_network(name: str, planted_folder: Path, digits: Dataset) -> None:
    planted = PLANTED[name]
    verdict = ct.evaluation.masking(planted.build(planted_folder), digits, planted.eps)
    levels = {one.test: one.level for one in verdict.evidence}
    raised = [test for test, level in levels.items() if level in ("suspicious", "masked")]
    assert verdict.level == planted.level, (raised, verdict.summary)
    assert set(planted.raises) <= set(raised)
    assert verdict.tests_run == (4 if name == "noisy input" else 13)
