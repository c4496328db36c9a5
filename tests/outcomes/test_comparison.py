"""Paired comparison of two models."""

import numpy as np
import pytest
from numpy.typing import NDArray

from ctrobust.errors import InputError
from ctrobust.outcomes import Evaluation, compare, mcnemar


def evaluation(robust: NDArray[np.bool_]) -> Evaluation:
    """Outcomes of a model of three classes that is correct on clean images and robust where given; labels are 0."""
    n = len(robust)
    zeros, rows = np.zeros(n, dtype=np.int64), np.tile(np.array([0.8, 0.1, 0.1], dtype=np.float32), (n, 1))
    prediction = np.where(robust, 0, 1)
    return Evaluation(zeros, rows, None, zeros, prediction, zeros.astype(np.float32), zeros, zeros, zeros.astype(bool))


def pair(both: int, only_second: int, only_first: int, neither: int) -> tuple[Evaluation, Evaluation]:
    first = [True] * both + [False] * only_second + [True] * only_first + [False] * neither
    second = [True] * both + [True] * only_second + [False] * only_first + [False] * neither
    return evaluation(np.array(first)), evaluation(np.array(second))


@pytest.mark.parametrize(
    ("counts", "low", "high"),
    [((36, 12, 2, 0), 0.0569, 0.3404), ((54, 0, 0, 0), -0.0664, 0.0664)],
)
def test_the_interval_is_newcombes_published_one(counts: tuple[int, ...], low: float, high: float) -> None:
    """Newcombe 1998, Statistics in Medicine 17, pages 2635-2650, method 10."""
    found = compare(*pair(*counts))
    assert found.low == pytest.approx(low, abs=5e-5)
    assert found.high == pytest.approx(high, abs=5e-5)


def test_the_difference_is_second_minus_first_with_mcnemars_test() -> None:
    first, second = pair(50, 30, 10, 10)
    found = compare(first, second)
    assert (found.first, found.second) == (0.6, 0.8)
    assert found.difference == pytest.approx(0.2)
    assert found.low < 0.2 < found.high
    assert found.test == mcnemar(first.robust, second.robust)
    turned = compare(second, first)
    assert (turned.low, turned.high) == pytest.approx((-found.high, -found.low))


def test_the_interval_covers_the_true_difference_in_about_95_percent_of_draws() -> None:
    rng, covered, draws = np.random.default_rng(0), 0, 400
    for _ in range(draws):
        common = rng.random(300) < 0.5
        a, b = (np.where(common, rng.random(300) < 0.9, rng.random(300) < p) for p in (0.2, 0.3))
        found = compare(evaluation(a), evaluation(b))
        covered += found.low <= 0.05 <= found.high
    assert 0.92 <= covered / draws <= 0.99


def test_other_examples_are_rejected() -> None:
    first, second = evaluation(np.ones(5, dtype=bool)), evaluation(np.ones(4, dtype=bool))
    with pytest.raises(InputError, match="5 and 4 examples"):
        compare(first, second)
    moved = evaluation(np.ones(5, dtype=bool))
    moved.labels[0] = 1
    with pytest.raises(InputError, match="the labels of the two evaluations differ"):
        compare(first, moved)
