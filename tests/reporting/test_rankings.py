"""Who is best, and whether the examples decide it."""

from pathlib import Path

import numpy as np
import pytest

from ctrobust.outcomes import Evaluation, compare, worst_case
from ctrobust.reporting.outcome_digests import digest_outcomes
from ctrobust.reporting.rankings import Outcomes, Ranking, clean_ranking, robust_ranking
from ctrobust.reporting.report_models import group_models
from ctrobust.reporting.report_runs import Reading, read_runs
from ctrobust.reporting.report_sections import Section, make_sections
from ctrobust.store import RunDirectory
from tests.reporting.made_runs import make_run


def read(path: Path) -> tuple[Section, Outcomes]:
    reading: Reading = read_runs([path])
    (section,) = make_sections(group_models(reading.runs))
    networks = [network for model in section.models for network in model.networks]
    return section, {one: digest_outcomes(section, one, reading, profiled=False) for one in networks}


def robust(path: Path) -> Ranking:
    section, outcomes = read(path)
    found = robust_ranking(section, outcomes)
    assert found is not None
    return found


def test_the_score_is_the_worst_case_over_the_common_attacks(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    make_run(tmp_path / "b", {"lr": 0.5}, attacks=[("fgsm:eps=0.1", 0.2), ("pgd:eps=0.1", 0.1)], draw_seed=2)
    found = robust(tmp_path)
    stored = {one.attack: one.evaluation for one in run.evaluations() if one.attack != "none"}
    expected = worst_case(stored)
    assert found.leader.model.name == "a"
    assert found.leader.mean == expected.robust_accuracy
    assert found.leader.interval == (expected.interval.low, expected.interval.high)
    assert found.leader.mean <= min(one.robust_accuracy for one in stored.values())


def test_a_large_difference_is_decisive_and_its_numbers_are_those_of_compare(tmp_path: Path) -> None:
    runs = [
        make_run(tmp_path / "a", attacks=[("pgd:eps=0.1", 0.9)], draw_seed=1),
        make_run(tmp_path / "b", {"lr": 0.5}, attacks=[("pgd:eps=0.1", 0.3)], draw_seed=2),
    ]
    (found,) = robust(tmp_path).comparisons
    first, second = (_attack(run) for run in runs)
    assert found.pairs == [compare(second, first)]
    assert (found.decisive, found.count, found.other.name) == (True, 120, "b")


def _attack(run: RunDirectory) -> Evaluation:
    return next(one.evaluation for one in run.evaluations() if one.attack != "none")


def test_equal_models_are_not_decided(tmp_path: Path) -> None:
    make_run(tmp_path / "a", attacks=[("pgd:eps=0.1", 0.6)], draw_seed=1)
    make_run(tmp_path / "b", {"lr": 0.5}, attacks=[("pgd:eps=0.1", 0.6)], draw_seed=1)
    (found,) = robust(tmp_path).comparisons
    assert (found.difference, found.decisive) == (0.0, False)


def test_one_seed_that_fails_takes_the_decision_away(tmp_path: Path) -> None:
    for seed, share in enumerate((0.9, 0.9, 0.1)):
        make_run(tmp_path / f"a-seed{seed}", {"seed": seed}, attacks=[("pgd:eps=0.1", share)], draw_seed=seed)
    make_run(tmp_path / "b", {"lr": 0.5}, attacks=[("pgd:eps=0.1", 0.3)], draw_seed=7)
    found = robust(tmp_path)
    (one,) = found.comparisons
    assert found.leader.model.name == "a"
    assert found.leader.spread == pytest.approx(np.std(found.leader.values, ddof=1))
    assert (len(one.pairs), one.ahead, one.decisive) == (3, 2, False)


def test_many_tests_ask_for_more(tmp_path: Path) -> None:
    """A difference with 0.05 / 12 < p < 0.05 is decisive for two models and not for many."""
    make_run(tmp_path / "a", attacks=[("pgd:eps=0.1", 0.6)], count=120, draw_seed=1)
    make_run(tmp_path / "b", {"lr": 0.5}, attacks=[("pgd:eps=0.1", 0.53)], count=120, draw_seed=1)
    (alone,) = robust(tmp_path).comparisons
    (pair,) = alone.pairs
    assert 0.05 / 12 < pair.test.p_value < 0.05
    for number in range(12):
        make_run(tmp_path / f"c{number}", {"lr": 1.0 + number}, attacks=[("pgd:eps=0.1", 0.1)], draw_seed=1)
    among = next(one for one in robust(tmp_path).comparisons if one.other.name == "b")
    assert (alone.decisive, among.decisive) == (True, False)


def test_clean_accuracy_is_the_recorded_one(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    found = clean_ranking(*read(tmp_path))
    assert found is not None
    assert found.leader.mean == run.read_record().results.accuracy


def test_models_on_different_numbers_of_images_are_not_compared(tmp_path: Path) -> None:
    make_run(tmp_path / "a", count=120)
    make_run(tmp_path / "b", {"lr": 0.5}, count=80)
    found = clean_ranking(*read(tmp_path))
    assert found is not None
    assert (len(found.scores), found.comparisons) == (2, [])


def test_a_damaged_file_is_left_out(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    next(run.outcomes_folder.glob("pgd*.npz")).write_bytes(b"damaged")
    reading = read_runs([tmp_path])
    (section,) = make_sections(group_models(reading.runs))
    network = section.models[0].networks[0]
    outcomes = digest_outcomes(section, network, reading, profiled=True)
    assert (outcomes.headline, outcomes.worst) == (None, {})
    assert len(reading.problems) == 1
    assert robust_ranking(section, {network: outcomes}) is None
