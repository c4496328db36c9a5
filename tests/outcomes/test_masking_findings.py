"""What follows from measurements: each level of each test from arrays made by hand."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ctrobust.outcomes import MASKING_TESTS, THRESHOLDS, MaskingSetting
from ctrobust.outcomes.masking_findings import Arrays, paired_p, raised

N = 200
SETTING = MaskingSetting(0.1, "linf", N, 10)


def first(count: int, total: int = N) -> NDArray[np.bool_]:
    """The first `count` examples."""
    return np.arange(total) < count


def radius(half: int, once: int, double: int, fgsm: tuple[int, int, int] = (150, 120, 90)) -> Arrays:
    names = ("half", "eps", "double")
    arrays = {f"pgd_{name}": first(count) for name, count in zip(names, (half, once, double), strict=True)}
    one_step = {f"fgsm_{name}": first(count) for name, count in zip(names, fgsm, strict=True)}
    return {"correct": first(190), **arrays, **one_step}


def on_remaining(broken: int, tested: int = 64, remaining: int = 64) -> Arrays:
    return {"remaining": first(remaining), "tested": first(tested), "broken": first(broken)}


def binary(reached: int, fitted: int = 40) -> Arrays:
    return {"fitted": first(fitted, 40), "reached": first(reached, 40)}


def losses(ce: int, **others: int) -> Arrays:
    return {"ce": first(ce), **{name: first(count) for name, count in others.items()}}


def steps(fgsm: int, pgd: int, correct: int = 180) -> Arrays:
    return {"correct": first(correct), "fgsm": first(fgsm), "pgd": first(pgd)}


def gradients(ce: int, margin: int) -> Arrays:
    return {"correct": first(180), "ce": first(ce), "margin": first(margin)}


CASES: list[tuple[str, Arrays, str]] = [
    ("randomized", {"distance": np.zeros(N)}, "none found"),
    ("randomized", {"distance": np.r_[np.zeros(N - 1), 2e-4]}, "suspicious"),
    ("zero gradients", gradients(0, 0), "none found"),
    ("zero gradients", gradients(1, 0), "suspicious"),
    ("zero gradients", gradients(0, 10), "masked"),
    ("one step beats many", steps(120, 80), "none found"),
    ("one step beats many", steps(78, 80), "none found"),  # not significant
    ("one step beats many", steps(72, 80), "suspicious"),
    ("one step beats many", steps(60, 80), "masked"),
    ("one step beats many", steps(100, 1), "suspicious"),  # PGD breaks all, FGSM hides it
    ("one step beats many", steps(150, 3), "suspicious"),  # PGD leaves 3 of 200
    ("one step beats many", steps(50, 3), "none found"),  # more than 5% of what FGSM leaves
    ("one step beats many", steps(20, 1), "none found"),
    ("unlimited radius", {"pgd": first(0)}, "none found"),
    ("unlimited radius", {"pgd": first(10)}, "suspicious"),
    ("unlimited radius", {"pgd": first(30)}, "masked"),
    ("radius does not help", radius(150, 100, 40), "none found"),
    ("radius does not help", radius(5, 0, 0), "none found"),  # nothing is left to break
    ("radius does not help", radius(188, 188, 187), "none found"),  # the radius is too small
    ("radius does not help", radius(100, 100, 99), "suspicious"),
    ("radius does not help", radius(100, 120, 40), "masked"),
    ("radius does not help", radius(60, 0, 0, (50, 100, 30)), "suspicious"),
    ("more effort helps", {"pgd": first(100), "steps": first(99), "starts": first(98)}, "none found"),
    ("more effort helps", {"pgd": first(100), "steps": first(99), "starts": first(88)}, "suspicious"),
    ("more effort helps", {"pgd": first(100), "steps": first(60), "starts": first(98)}, "masked"),
    ("unfinished ascent", {"robust": first(0), "gain": np.ones(N)}, "none found"),
    ("unfinished ascent", {"robust": first(100), "gain": np.zeros(N)}, "none found"),
    ("unfinished ascent", {"robust": first(100), "gain": np.where(first(60), 0.2, 0.0)}, "suspicious"),
    ("silent success", {"earlier": first(90), "last": first(90)}, "none found"),
    ("silent success", {"earlier": first(90), "last": first(50)}, "suspicious"),
    ("loss decides", losses(100, margin=96, dlr=98), "none found"),
    ("loss decides", losses(100, margin=80, dlr=98), "suspicious"),
    ("loss decides", losses(100, margin=100, std=40), "masked"),
    ("unstable loss surface", {"change": np.full(64, 0.1)}, "none found"),
    ("unstable loss surface", {"change": np.full(64, 0.9)}, "suspicious"),
    ("noise", on_remaining(0, 0, 0), "none found"),
    ("noise", on_remaining(0), "none found"),
    ("noise", on_remaining(1), "suspicious"),
    ("noise", on_remaining(8), "masked"),
    ("black box beats white box", on_remaining(2), "none found"),  # too few to mean anything
    ("black box beats white box", on_remaining(4), "suspicious"),
    ("black box beats white box", on_remaining(20), "masked"),
    ("black box beats white box", on_remaining(8, remaining=160), "masked"),  # 8 of 64 stands for 20 of 160
    ("transfer", on_remaining(0), "none found"),
    ("transfer", on_remaining(1), "suspicious"),
    ("transfer", on_remaining(20), "masked"),
    ("binarization", binary(40), "none found"),
    ("binarization", binary(36), "suspicious"),
    ("binarization", binary(10), "masked"),
    ("binarization", binary(0, fitted=10), "not tested"),
]


@pytest.mark.parametrize(("test", "arrays", "level"), CASES)
def test_levels(test: str, arrays: Mapping[str, NDArray[Any]], level: str) -> None:
    found = MASKING_TESTS[test](arrays, SETTING)
    assert found.level == level
    assert found.sentence.endswith(".")
    assert found.numbers


FEW = 20
"""A number of examples at which a handful of them must not raise anything."""

FEW_CASES: list[tuple[str, Arrays, str]] = [
    # PGD breaks all 20, as it may by chance where it breaks most, and FGSM leaves half of them.
    ("one step beats many", steps(10, 0, 20), "none found"),
    # A linear network: the 3 examples that are left at half the radius are all broken at twice the radius.
    ("radius does not help", radius(3, 0, 0, (3, 0, 0)), "none found"),
    ("radius does not help", radius(6, 6, 6, (6, 6, 6)), "none found"),  # too few to see a fall
    ("radius does not help", radius(12, 8, 6, (12, 8, 6)), "none found"),  # half of them are broken
    ("radius does not help", radius(12, 12, 12, (12, 12, 12)), "suspicious"),
    ("unfinished ascent", {"robust": first(5), "gain": np.where(first(2), 0.2, 0.0)}, "none found"),
    ("unfinished ascent", {"robust": first(5), "gain": np.where(first(3), 0.2, 0.0)}, "suspicious"),
    ("silent success", {"earlier": first(9), "last": first(7)}, "none found"),
    ("silent success", {"earlier": first(9), "last": first(6)}, "suspicious"),
    ("binarization", {"fitted": first(20), "reached": first(18)}, "none found"),
    ("binarization", {"fitted": first(20), "reached": first(17)}, "suspicious"),
]


@pytest.mark.parametrize(("test", "arrays", "level"), FEW_CASES)
def test_few_examples_raise_only_what_they_can_show(test: str, arrays: Mapping[str, NDArray[Any]], level: str) -> None:
    few = {name: array[:FEW] for name, array in arrays.items()}
    assert MASKING_TESTS[test](few, MaskingSetting(0.1, "linf", FEW, 10)).level == level


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        (radius(150, 100, 40), "A larger radius breaks more: "),
        (radius(5, 5, 5), "Too few images are left to see the accuracy fall: "),
        (radius(188, 188, 187), "The radius is too small to see the accuracy fall: "),
    ],
)
def test_a_radius_that_raises_nothing_is_described(arrays: Arrays, sentence: str) -> None:
    assert MASKING_TESTS["radius does not help"](arrays, SETTING).sentence.startswith(sentence)


def test_every_test_has_a_case_for_every_level_that_it_can_raise() -> None:
    for test, threshold in THRESHOLDS.items():
        levels = {level for name, _, level in CASES if name == test}
        expected = {"none found", "suspicious"} | ({"masked"} if threshold.masked is not None else set())
        assert expected <= levels, test


def test_the_loss_that_finds_most_is_named() -> None:
    found = MASKING_TESTS["loss decides"](losses(100, margin=90, dlr=70, std=95), SETTING)
    assert found.numbers["best"] == "dlr"
    assert "the loss that finds most is dlr" in found.sentence


def test_zero_gradients_name_the_loss_and_the_images() -> None:
    sentence = MASKING_TESTS["zero gradients"](gradients(0, 45), SETTING).sentence
    assert "The gradient of the margin is exactly zero at 45 of 180 correctly classified images" in sentence


def test_paired_p_is_the_binomial_tail() -> None:
    assert paired_p(first(10), first(3)) == pytest.approx(0.5**7)
    assert paired_p(first(3), first(10)) == 1.0
    assert paired_p(first(5), first(5)) == 1.0


@pytest.mark.parametrize("test", [name for name, bounds in THRESHOLDS.items() if bounds.masked is not None])
def test_a_threshold_itself_raises_nothing(test: str) -> None:
    bounds = THRESHOLDS[test]
    assert bounds.suspicious is not None
    assert bounds.masked is not None
    assert raised(test, bounds.suspicious) == "none found"
    assert raised(test, bounds.masked) in ("suspicious", "none found")
    assert raised(test, bounds.masked + 1e-6) == "masked"
