import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrobust.errors import InputError
from ctrobust.outcomes.intervals import Interval, wilson


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

    @given(total=st.integers(1, 10**6), data=st.data(), confidence=st.floats(0.5, 0.9999))
    @settings(max_examples=100, deadline=None)
    def test_both_ends_solve_wilsons_equation(self, total: int, data: st.DataObject, confidence: float) -> None:
        successes = data.draw(st.integers(0, total))
        interval, z = wilson(successes, total, confidence), NormalDist().inv_cdf((1 + confidence) / 2)
        for x in (interval.low, interval.high):
            left, right = (successes / total - x) ** 2, z * z * x * (1 - x) / total
            assert left == pytest.approx(right, rel=1e-6, abs=1e-12)

    @given(total=st.integers(1, 10**9), data=st.data(), confidence=st.floats(0.5, 0.9999))
    @settings(max_examples=150, deadline=None)
    def test_contains_the_proportion_and_mirrors_with_it(
        self, total: int, data: st.DataObject, confidence: float
    ) -> None:
        successes = data.draw(st.integers(0, total))
        interval, mirrored = wilson(successes, total, confidence), wilson(total - successes, total, confidence)
        assert 0 <= interval.low <= successes / total + 1e-15
        assert successes / total - 1e-15 <= interval.high <= 1
        assert mirrored.high == pytest.approx(1 - interval.low, abs=1e-12)
        assert mirrored.low == pytest.approx(1 - interval.high, abs=1e-12)

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
            (-1, 5, 0.95, "successes is -1; it must lie between 0 and total, here 5"),
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
