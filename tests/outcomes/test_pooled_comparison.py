"""Comparison of two groups of networks."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats  # type: ignore[import-untyped, unused-ignore]

from ctrobust.errors import InputError
from ctrobust.outcomes import compare, compare_pooled, pooled_mcnemar
from tests.outcomes.test_comparison import evaluation


def networks(count: int, examples: int, accuracy: float, seed: int = 0) -> list[NDArray[np.bool_]]:
    """Outcomes that are correlated, as some examples are hard for all networks."""
    rng = np.random.default_rng((seed, count, examples))
    hard = rng.random(examples)
    return [(rng.random(examples) + hard) / 2 < accuracy for _ in range(count)]


def test_one_network_each_is_the_plain_comparison() -> None:
    a, b = (evaluation(one) for one in (*networks(1, 300, 0.5), *networks(1, 300, 0.6, seed=1)))
    pooled, plain = compare_pooled([a], [b]), compare(a, b)
    assert (pooled.first, pooled.second, pooled.difference) == ((plain.first,), (plain.second,), plain.difference)
    assert (pooled.over_examples.low, pooled.over_examples.high) == (plain.low, plain.high)
    assert pooled.p_value == plain.test.p_value
    assert pooled.over_seeds is None
    assert pooled.examples == 300


@pytest.mark.parametrize(("first", "second"), [(3, 3), (2, 4), (1, 3)])
def test_means_and_intervals_are_those_of_scipy(first: int, second: int) -> None:
    a, b = networks(first, 200, 0.5), networks(second, 200, 0.55, seed=1)
    paired = first == second
    found = compare_pooled(list(map(evaluation, a)), list(map(evaluation, b)), paired=paired)
    p, q = [one.mean() for one in a], [one.mean() for one in b]
    assert found.first == pytest.approx(p)
    assert found.difference == pytest.approx(np.mean(q) - np.mean(p))
    per_example = np.mean(b, axis=0) - np.mean(a, axis=0)
    weighted = [*np.repeat(per_example, 2), -1, 0, 0, 1]  # each example twice, so that half an example is one entry
    half = stats.norm.ppf(0.975) * np.std(weighted) / math.sqrt(len(weighted) / 2)
    assert found.over_examples.low == pytest.approx(np.mean(weighted) - half)
    assert found.over_examples.high == pytest.approx(np.mean(weighted) + half)
    if first < 2:
        assert found.over_seeds is None
        return
    expected = (stats.ttest_rel(q, p) if paired else stats.ttest_ind(q, p, equal_var=False)).confidence_interval()
    assert found.over_seeds is not None
    assert (found.over_seeds.low, found.over_seeds.high) == pytest.approx((expected.low, expected.high))


def test_equal_networks_do_not_differ() -> None:
    a = evaluation(np.array([True, False, True]))
    found = compare_pooled([a, a], [a, a, a])
    assert (found.difference, found.p_value) == (0, 1)
    assert found.over_seeds is not None
    assert (found.over_seeds.low, found.over_seeds.high) == (0, 0)
    assert found.over_examples.low == pytest.approx(-found.over_examples.high)
    assert found.over_examples.high > 0.3  # three examples say little


def test_the_interval_over_examples_covers_the_true_difference_in_about_95_percent_of_draws() -> None:
    rng, covered, draws = np.random.default_rng(0), 0, 300
    for _ in range(draws):
        hard = rng.random(150) < 0.5
        a, b = (
            [evaluation(np.where(hard, rng.random(150) < 0.9, rng.random(150) < p)) for _ in range(3)]
            for p in (0.2, 0.3)
        )
        found = compare_pooled(a, b)
        covered += found.over_examples.low <= 0.05 <= found.over_examples.high
    assert 0.92 <= covered / draws <= 0.99


def test_the_test_counts_an_example_once_however_many_networks_classify_it() -> None:
    """Copies of a network add nothing: the p-value stays that of one, where adding up examples would shrink it."""
    a, b = networks(1, 80, 0.5)[0], networks(1, 80, 0.6, seed=1)[0]
    single = pooled_mcnemar(a[None], b[None])
    assert pooled_mcnemar(np.array([a] * 4), np.array([b] * 4)) == pytest.approx(single, rel=1e-9)
    assert pooled_mcnemar(np.array([a] * 2), np.array([b] * 5)) == pytest.approx(single, rel=1e-9)


@pytest.mark.parametrize(("first", "second"), [(2, 2), (3, 1), (2, 3)])
def test_the_p_value_is_that_of_all_signs_counted(first: int, second: int) -> None:
    a, b = (np.random.default_rng(first).random((count, 12)) < 0.5 for count in (first, second))
    d = b.sum(axis=0) * first - a.sum(axis=0) * second
    signs = 1 - 2 * (np.arange(2**12)[:, None] >> np.arange(12) & 1)
    sums = np.abs(signs @ d)
    assert pooled_mcnemar(a, b) == pytest.approx((sums >= abs(d.sum())).mean(), rel=1e-9)


def test_the_test_rejects_equal_groups_no_more_often_than_it_should() -> None:
    rejected, trials = 0, 400
    for trial in range(trials):
        rows = np.array(networks(6, 120, 0.5, seed=trial))
        rejected += pooled_mcnemar(rows[:3], rows[3:]) < 0.05
    assert rejected / trials < 0.05 + 3 * math.sqrt(0.05 * 0.95 / trials)


def test_a_clear_difference_has_a_tiny_p_value() -> None:
    a, b = np.zeros((3, 2000), dtype=bool), np.ones((3, 2000), dtype=bool)
    b[:, :500] = False
    assert pooled_mcnemar(a, b) == pytest.approx(2.0**-1499, abs=1e-300)
    assert 0 < pooled_mcnemar(a[:, 500:700], b[:, 500:700]) < 1e-50


@pytest.mark.parametrize(
    ("first", "second", "paired", "message"),
    [
        (0, 2, False, "0 and 2 evaluations are compared"),
        (2, 3, True, "as many networks on both sides; got 2 and 3"),
    ],
)
def test_wrong_groups_are_refused(first: int, second: int, paired: bool, message: str) -> None:
    a = evaluation(np.ones(3, dtype=bool))
    with pytest.raises(InputError, match=message):
        compare_pooled([a] * first, [a] * second, paired=paired)


def test_other_examples_are_refused() -> None:
    a, b = evaluation(np.ones(3, dtype=bool)), evaluation(np.ones(4, dtype=bool))
    with pytest.raises(InputError, match="3 and 4 examples"):
        compare_pooled([a, a], [a, b])
