import math
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats  # type: ignore[import-untyped, unused-ignore]

from ctrobust.errors import InputError
from ctrobust.evaluation.statistics import Interval, McNemar, mcnemar, wilson


def pair(both: int, b: int, c: int, neither: int = 0) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Two models' outcomes with the given numbers of concordant and discordant examples."""
    first = np.array([True] * both + [True] * b + [False] * c + [False] * neither, dtype=bool)
    second = np.array([True] * both + [False] * b + [True] * c + [False] * neither, dtype=bool)
    return first, second


class TestWilson:
    def test_hand_computed(self) -> None:
        # 81 of 263, Newcombe's (1998) worked example: 0.2553 to 0.3662
        interval = wilson(81, 263)
        assert (round(interval.low, 4), round(interval.high, 4)) == (0.2553, 0.3662)

    def test_half_of_the_examples_has_a_closed_form(self) -> None:
        z = 1.959963984540054
        half = z / (2 * math.sqrt(100 + z * z))
        interval = wilson(50, 100)
        assert interval.low == pytest.approx(0.5 - half, rel=1e-14)
        assert interval.high == pytest.approx(0.5 + half, rel=1e-14)

    def test_the_ends_are_exact(self) -> None:
        z2 = 1.959963984540054**2
        none, every = wilson(0, 20), wilson(20, 20)
        assert none.low == 0.0
        assert every.high == 1.0
        assert none.high == pytest.approx(z2 / (20 + z2), rel=1e-14)
        assert every.low == pytest.approx(20 / (20 + z2), rel=1e-14)

    @given(total=st.integers(1, 10**6), data=st.data(), confidence=st.floats(0.01, 0.9999))
    @settings(max_examples=150, deadline=None)
    def test_agrees_with_scipy(self, total: int, data: st.DataObject, confidence: float) -> None:
        successes = data.draw(st.integers(0, total))
        expected = stats.binomtest(successes, total).proportion_ci(confidence, method="wilson")
        interval = wilson(successes, total, confidence)
        assert interval.low == pytest.approx(expected.low, rel=1e-7, abs=1e-12)
        assert interval.high == pytest.approx(expected.high, rel=1e-7, abs=1e-12)

    @given(total=st.integers(1, 10**12), data=st.data(), confidence=st.floats(0.001, 1, exclude_max=True))
    @settings(max_examples=150, deadline=None)
    def test_contains_the_proportion_and_mirrors_with_it(
        self, total: int, data: st.DataObject, confidence: float
    ) -> None:
        successes = data.draw(st.integers(0, total))
        interval, mirrored = wilson(successes, total, confidence), wilson(total - successes, total, confidence)
        assert 0 <= interval.low <= successes / total <= interval.high <= 1
        assert mirrored.high == 1 - interval.low
        assert mirrored.low == pytest.approx(1 - interval.high, abs=1e-15)

    @given(total=st.integers(1, 1000), data=st.data())
    @settings(max_examples=50, deadline=None)
    def test_widens_with_confidence_and_narrows_with_examples(self, total: int, data: st.DataObject) -> None:
        successes = data.draw(st.integers(0, total))
        usual, surer, more = wilson(successes, total), wilson(successes, total, 0.99), wilson(3 * successes, 3 * total)
        assert surer.high - surer.low > usual.high - usual.low > more.high - more.low

    def test_numpy_counts_give_plain_floats(self) -> None:
        interval = wilson(np.int64(100), np.int64(120))  # type: ignore[arg-type]
        assert interval == wilson(100, 120)
        assert (type(interval.low), type(interval.high)) == (float, float)

    def test_is_a_plain_comparable_value(self) -> None:
        assert wilson(0, 1) == Interval(low=0.0, high=wilson(0, 1).high)

    @pytest.mark.parametrize(
        ("successes", "total", "confidence", "message"),
        [
            (0, 0, 0.95, "total is 0"),
            (0, -3, 0.95, "total is -3"),
            (-1, 5, 0.95, "successes is -1; allowed are 0 to total, here 5"),
            (6, 5, 0.95, "successes is 6"),
            (2.5, 5, 0.95, "successes is 2.5"),
            (2, 5.0, 0.95, "total is 5.0"),
            (2, 5, 0.0, "confidence is 0.0"),
            (2, 5, 1.0, "confidence is 1.0"),
            (2, 5, math.nan, "confidence is nan"),
        ],
    )
    def test_refuses(self, successes: int, total: int, confidence: float, message: str) -> None:
        with pytest.raises(InputError, match=message):
            wilson(successes, total, confidence)


class TestMcNemar:
    def test_hand_computed(self) -> None:
        # 2 (1 + 6 + 15) / 2^6 = 0.6875
        result = mcnemar(*pair(both=7, b=4, c=2, neither=3))
        assert result == McNemar(b=4, c=2, p_value=result.p_value)
        assert result.p_value == pytest.approx(0.6875, rel=1e-14)

    def test_which_side_is_which(self) -> None:
        first, second = pair(both=1, b=5, c=1)
        assert (mcnemar(first, second).b, mcnemar(first, second).c) == (5, 1)
        assert (mcnemar(second, first).b, mcnemar(second, first).c) == (1, 5)

    @pytest.mark.parametrize(("b", "c"), [(0, 0), (1, 0), (0, 1), (1, 1), (3, 2), (50, 50), (500, 501), (5000, 4999)])
    def test_no_evidence_is_exactly_one(self, b: int, c: int) -> None:
        assert mcnemar(*pair(2, b, c)).p_value == 1.0

    @given(b=st.integers(0, 300), c=st.integers(0, 300))
    @settings(max_examples=100, deadline=None)
    def test_agrees_with_exact_integers(self, b: int, c: int) -> None:
        n = b + c
        tail = sum(math.comb(n, i) for i in range(min(b, c) + 1))
        expected = min(Fraction(1), Fraction(2 * tail, 2**n))
        assert mcnemar(*pair(3, b, c)).p_value == pytest.approx(float(expected), rel=1e-12)

    @pytest.mark.parametrize(("b", "c"), [(10, 3), (1200, 1000), (5300, 4700), (50_000, 50_400), (103_000, 100_000)])
    def test_agrees_with_scipy_at_large_counts(self, b: int, c: int) -> None:
        expected = stats.binomtest(b, b + c, 0.5).pvalue
        assert 1e-30 < expected < 1
        assert mcnemar(*pair(0, b, c)).p_value == pytest.approx(expected, rel=1e-9)

    def test_far_tail_is_not_lost(self) -> None:
        assert mcnemar(*pair(0, 1000, 0)).p_value == pytest.approx(2.0**-999, rel=1e-10)

    def test_underflow_is_a_silent_zero(self) -> None:
        with np.errstate(all="raise"):
            assert mcnemar(*pair(0, 20_000, 0)).p_value == 0.0

    @given(
        st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60), st.randoms(use_true_random=False)
    )
    @settings(max_examples=60, deadline=None)
    def test_symmetric_and_blind_to_order_and_to_agreement(
        self, outcomes: list[tuple[bool, bool]], random: Random
    ) -> None:
        first, second = np.array(outcomes, dtype=bool).T
        result = mcnemar(first, second)
        shuffled = [*outcomes, (True, True), (False, False)]
        random.shuffle(shuffled)
        again = np.array(shuffled, dtype=bool).T
        swapped = mcnemar(second, first)
        assert 0 < result.p_value <= 1
        assert mcnemar(again[0], again[1]) == result
        assert (swapped.b, swapped.c, swapped.p_value) == (result.c, result.b, result.p_value)

    @pytest.mark.parametrize(
        ("first", "second", "message"),
        [
            (np.ones(3, bool), np.ones(4, bool), "first_correct has 3 examples and second_correct 4"),
            (np.ones(3, int), np.ones(3, bool), "first_correct is int64"),
            (np.ones(3, bool), np.ones((3, 1), bool), r"second_correct is bool of shape \(3, 1\)"),
            ([True], np.ones(1, bool), "first_correct is a list"),
            (np.ones(0, bool), np.ones(0, bool), "empty"),
        ],
    )
    def test_refuses(self, first: NDArray[np.bool_], second: NDArray[np.bool_], message: str) -> None:
        with pytest.raises(InputError, match=message):
            mcnemar(first, second)
