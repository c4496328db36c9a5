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
from ctrobust.outcomes.paired_tests import McNemar, holm, mcnemar


def pair(both: int, b: int, c: int, neither: int = 0) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Two models' outcomes with the given numbers of concordant and discordant examples."""
    first = np.array([True] * both + [True] * b + [False] * c + [False] * neither, dtype=bool)
    second = np.array([True] * both + [False] * b + [True] * c + [False] * neither, dtype=bool)
    return first, second


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


class TestHolm:
    def test_hand_computed(self) -> None:
        assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])

    def test_never_above_one_nor_out_of_order(self) -> None:
        assert holm([0.6, 0.5, 0.9]) == [1.0, 1.0, 1.0]
        assert holm([]) == []
        assert holm([0.2]) == [0.2]

    @given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
    @settings(max_examples=60, deadline=None)
    def test_between_the_raw_and_the_bonferroni_value_and_as_ordered(self, values: list[float]) -> None:
        found = holm(values)
        for raw, corrected in zip(values, found, strict=True):
            assert raw <= corrected <= min(1.0, raw * len(values)) or corrected == max(found)
        order = np.argsort(values, kind="stable")
        assert list(np.array(found)[order]) == sorted(found)
