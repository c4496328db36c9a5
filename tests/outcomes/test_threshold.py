import json
import math
from dataclasses import FrozenInstanceError
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ctrobust.errors import InputError
from ctrobust.outcomes.threshold import (
    CONFIDENCE_LEVELS,
    SWEEP_FRACTIONS,
    ThresholdStatistics,
    attacked_rank,
    threshold_statistics,
)

# Four classes, threshold 1/3. Row 2 is an error with p_y = .3; row 3 a tie that argmax gives to class 0, an error.
P = np.array([[0.7, 0.2, 0.1, 0.0], [0.05, 0.45, 0.4, 0.1], [0.3, 0.5, 0.15, 0.05], [0.4, 0.4, 0.1, 0.1]])
Y = np.array([0, 1, 0, 1])


@st.composite
def weights_and_labels(draw: st.DrawFn) -> tuple[list[list[int]], list[int]]:
    """Small integer weights, whose proportions are full of ties, with labels."""
    C = draw(st.integers(2, 6))
    row = st.lists(st.integers(0, 5), min_size=C, max_size=C).filter(any)
    weights = draw(st.lists(row, min_size=1, max_size=12))
    labels = draw(st.lists(st.integers(0, C - 1), min_size=len(weights), max_size=len(weights)))
    return weights, labels


def proportions(weights: list[list[int]], dtype: type[np.floating[Any]] = np.float64) -> NDArray[Any]:
    """The weights' proportions, each correctly rounded."""
    w: NDArray[np.floating[Any]] = np.array(weights, dtype)
    return np.asarray(w / w.sum(axis=1, keepdims=True))


def softmax_outputs(seed: int, N: int, C: int, scale: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Probabilities without ties, and labels that the larger ones often name."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(N, C)) * scale
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    y = np.where(rng.random(N) < 0.6, logits.argmax(axis=1), rng.integers(0, C, N))
    return p / p.sum(axis=1, keepdims=True), y


class TestThresholdStatistics:
    def test_hand_computed(self) -> None:
        stats = threshold_statistics(P, Y, sweep_fractions=(1.0, 0.5, 0.25), confidence_levels=(0.7, 0.42, 0.3, 0.0))
        assert stats == ThresholdStatistics(
            threshold=1 / 3,
            wrong_below=9,  # of 12, all but .4, .5 and .4
            wrong_total=12,
            sweep_thresholds=(1 / 3, 1 / 6, 1 / 12),
            sweep_counts=(9, 8, 3),  # .2 is lost, then .15 and the .1s
            confidence_levels=(0.7, 0.42, 0.3, 0.0),
            count_above=(0, 2, 3, 4),
            accuracy_above=(None, 1.0, 2 / 3, 0.5),
            largest_wrong_confidence=0.4,
        )

    def test_a_tie_goes_to_the_lower_class(self) -> None:
        p = np.array([[0.5, 0.5]])
        assert threshold_statistics(p, np.array([0])).largest_wrong_confidence is None
        assert threshold_statistics(p, np.array([1])).largest_wrong_confidence == 0.5

    def test_no_errors(self) -> None:
        stats = threshold_statistics(P[:2], Y[:2])
        assert stats.largest_wrong_confidence is None
        assert stats.accuracy_above[-1] == 1.0

    def test_one_hot_outputs_have_every_wrong_category_below_every_threshold(self) -> None:
        y = np.arange(10).repeat(3)
        stats = threshold_statistics(np.eye(10)[y], y)
        assert stats.wrong_below == stats.wrong_total == 270
        assert set(stats.sweep_counts) == {270}
        assert set(stats.accuracy_above) == {1.0}

    def test_the_paper_s_totals(self) -> None:
        for C, total in ((10, 90_000), (100, 990_000)):
            p = np.full((10_000, C), 1 / C, np.float32)
            stats = threshold_statistics(p, np.zeros(10_000, np.int64))
            assert (stats.wrong_below, stats.wrong_total) == (total, total)

    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
    @pytest.mark.parametrize("C", [3, 4, 6, 8, 10, 14, 24, 100])
    def test_a_probability_of_exactly_the_threshold_is_not_below_it(self, C: int, dtype: type) -> None:
        p: NDArray[np.floating[Any]] = np.full((1, C), 1 / (C - 1), dtype)
        p[0, 0] = 0
        assert threshold_statistics(p, np.array([0])).wrong_below == 0
        assert threshold_statistics(p, np.array([1]), confidence_levels=(1 / (C - 1),)).count_above == (0,)

    @given(weights_and_labels(), st.sampled_from([np.float16, np.float32, np.float64]))
    @settings(max_examples=100, deadline=None)
    def test_counts_equal_those_of_exact_fractions(
        self, case: tuple[list[list[int]], list[int]], dtype: type[np.floating[Any]]
    ) -> None:
        weights, labels = case
        C = len(weights[0])
        levels = [Fraction(1), Fraction(2, 3), Fraction(1, 2), Fraction(1, 3), Fraction(1, 4), Fraction(0)]
        wrong_below, above, right_above, wrong_confidences = 0, [0] * 6, [0] * 6, []
        for row, y in zip(weights, labels, strict=True):
            p = [Fraction(w, sum(row)) for w in row]
            wrong_below += sum(p[j] < Fraction(1, C - 1) for j in range(C) if j != y)
            correct = p.index(max(p)) == y
            for i, level in enumerate(levels):
                above[i] += p[y] > level
                right_above[i] += p[y] > level and correct
            if not correct:
                wrong_confidences.append(p[y])
        stats = threshold_statistics(
            proportions(weights, dtype), np.array(labels), confidence_levels=[float(level) for level in levels]
        )
        assert stats.wrong_below == wrong_below
        assert stats.count_above == tuple(above)
        assert stats.accuracy_above == tuple(r / n if n else None for r, n in zip(right_above, above, strict=True))
        if wrong_confidences:
            assert stats.largest_wrong_confidence == pytest.approx(float(max(wrong_confidences)), rel=1e-3)
        else:
            assert stats.largest_wrong_confidence is None

    @given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(2, 12), st.sampled_from([0.1, 1.0, 5.0]))
    @settings(max_examples=60, deadline=None)
    def test_agrees_with_loops_and_is_monotone(self, seed: int, N: int, C: int, scale: float) -> None:
        p, y = softmax_outputs(seed, N, C, scale)
        stats = threshold_statistics(p, y)
        for t, count in zip(stats.sweep_thresholds, stats.sweep_counts, strict=True):
            assert count == sum(p[n, j] < t for n in range(N) for j in range(C) if j != y[n])
        for t, count, accuracy in zip(stats.confidence_levels, stats.count_above, stats.accuracy_above, strict=True):
            hits = [list(p[n]).index(max(p[n])) == y[n] for n in range(N) if p[n, y[n]] > t]
            assert count == len(hits)
            assert accuracy == (sum(hits) / len(hits) if hits else None)
            if t >= 0.5:
                assert accuracy in {None, 1.0}
        errors = [p[n, y[n]] for n in range(N) if max(p[n]) > p[n, y[n]]]
        assert stats.largest_wrong_confidence == (max(errors) if errors else None)
        assert stats.sweep_counts[0] == stats.wrong_below <= stats.wrong_total == N * (C - 1)
        assert list(stats.sweep_counts) == sorted(stats.sweep_counts, reverse=True)
        assert list(stats.count_above) == sorted(stats.count_above)

    @given(weights_and_labels(), st.randoms(use_true_random=False))
    @settings(max_examples=40, deadline=None)
    def test_blind_to_the_order_of_examples(self, case: tuple[list[list[int]], list[int]], random: Random) -> None:
        p, y = proportions(case[0]), np.array(case[1])
        order = list(range(len(y)))
        random.shuffle(order)
        assert threshold_statistics(p[order], y[order]) == threshold_statistics(p, y)

    @pytest.mark.parametrize("C", [2, 3, 5, 10, 100])
    def test_default_grids(self, C: int) -> None:
        stats = threshold_statistics(np.full((1, C), 1 / C), np.array([0]))
        assert stats.sweep_thresholds == tuple(f * (1 / (C - 1)) for f in SWEEP_FRACTIONS)
        assert set(stats.confidence_levels) == {*CONFIDENCE_LEVELS, 1 / (C - 1)}
        assert list(stats.confidence_levels) == sorted(set(stats.confidence_levels), reverse=True)

    def test_empty_grids_are_empty(self) -> None:
        stats = threshold_statistics(P, Y, sweep_fractions=(), confidence_levels=())
        assert (stats.sweep_counts, stats.count_above, stats.accuracy_above) == ((), (), ())

    def test_dict_survives_json(self) -> None:
        plain = threshold_statistics(P.astype(np.float32), Y, confidence_levels=np.array([0.9, 0.5])).to_dict()  # type: ignore[arg-type]
        assert json.loads(json.dumps(plain, allow_nan=False)) == plain
        assert plain["accuracy_above"] == [None, 1.0]
        assert set(plain) == set(ThresholdStatistics.__dataclass_fields__)

    def test_is_frozen_and_leaves_its_input_alone(self) -> None:
        p, y = P.copy(), Y.copy()
        p.setflags(write=False)
        y.setflags(write=False)
        stats = threshold_statistics(p, y)
        with pytest.raises(FrozenInstanceError):
            stats.wrong_below = 0  # type: ignore[misc]
        assert hash(stats) == hash(threshold_statistics(P, Y))

    @pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.uint64])
    def test_any_integer_labels(self, dtype: type) -> None:
        assert threshold_statistics(P, Y.astype(dtype)) == threshold_statistics(P, Y)

    @pytest.mark.parametrize(
        ("p", "y", "message"),
        [
            (P.tolist(), Y, "probabilities is a list"),
            (P[0], Y, r"probabilities is float64 of shape \(4,\)"),
            (np.eye(4, dtype=int), Y, "probabilities is int64"),
            (np.ones((4, 1)), Y, "probabilities has 1 classes"),
            (np.ones((0, 4)), Y[:0], "no rows"),
            (np.where(P == 0.15, np.nan, P), Y, r"probabilities\[2, 2\] is nan"),
            (np.where(P == 0.15, np.inf, P), Y, r"probabilities\[2, 2\] is inf"),
            (np.array([[1.5, -0.5]]), Y[:1], r"probabilities\[0, 1\] is -0.5.*logits"),
            (
                P * np.array([[1], [1], [1.0011], [1]]),
                Y,
                r"probabilities\[2\] sums to 1.0011; allowed is 1 within 0.001",
            ),
            (P, Y.tolist(), "labels is a list"),
            (P, Y[:3], r"labels is int64 of shape \(3,\); allowed are integers of shape \(4,\)"),
            (P, Y[:, None], r"labels is int64 of shape \(4, 1\)"),
            (P, Y.astype(float), "labels is float64"),
            (P, Y == 1, "labels is bool"),
            (P, np.array([0, 1, 4, 0]), r"labels\[2\] is 4; allowed are the classes 0 to 3"),
            (P, np.array([0, -1, 0, 0]), r"labels\[1\] is -1"),
        ],
    )
    def test_refuses(self, p: NDArray[Any], y: NDArray[Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            threshold_statistics(p, y)

    def test_sums_within_the_tolerance_pass(self) -> None:
        assert threshold_statistics(P * 1.0009, Y).wrong_total == 12

    @pytest.mark.parametrize(
        ("grids", "message"),
        [
            ({"sweep_fractions": (1.0, 0.0)}, r"sweep_fractions has 0.0; allowed is \(0, 1\]"),
            ({"sweep_fractions": (1.5, 1.0)}, "sweep_fractions has 1.5"),
            ({"sweep_fractions": (0.5, 0.5)}, "sweep_fractions has 0.5 after 0.5"),
            ({"confidence_levels": (0.1, 0.5)}, "confidence_levels has 0.5 after 0.1"),
            ({"confidence_levels": (0.1, -0.1)}, r"confidence_levels has -0.1; allowed is \[0, 1\]"),
            ({"confidence_levels": (math.nan,)}, "confidence_levels has nan"),
        ],
    )
    def test_refuses_grids(self, grids: dict[str, tuple[float, ...]], message: str) -> None:
        with pytest.raises(InputError, match=message):
            threshold_statistics(P, Y, **grids)


class TestAttackedRank:
    def test_hand_computed(self) -> None:
        # Row 2 was wrong before the attack; row 3 ties its label with class 0 and class 2 with class 3.
        assert attacked_rank(P, Y, np.array([2, 1, 1, 3])).tolist() == [2, 0, 1, 3]
        assert attacked_rank(P, Y, np.array([3, 2, 3, 0])).tolist() == [3, 1, 3, 1]

    @given(weights_and_labels(), st.data())
    @settings(max_examples=100, deadline=None)
    def test_agrees_with_sorting_by_probability_then_class(
        self, case: tuple[list[list[int]], list[int]], data: st.DataObject
    ) -> None:
        weights, labels = case
        C = len(weights[0])
        attacked = data.draw(st.lists(st.integers(0, C - 1), min_size=len(labels), max_size=len(labels)))
        expected = []
        for row, y, a in zip(weights, labels, attacked, strict=True):
            wrong = sorted((j for j in range(C) if j != y), key=lambda j: (-row[j], j))
            expected.append(0 if a == y else 1 + wrong.index(a))
        rank = attacked_rank(proportions(weights), np.array(labels), np.array(attacked))
        assert rank.dtype == np.int64
        assert rank.tolist() == expected

    @given(st.integers(0, 2**32 - 1), st.integers(2, 9))
    @settings(max_examples=30, deadline=None)
    def test_the_classes_of_one_example_have_all_the_ranks(self, seed: int, C: int) -> None:
        p, y = softmax_outputs(seed, 1, C, 1.0)
        rank = attacked_rank(p.repeat(C, axis=0), y.repeat(C), np.arange(C))
        assert sorted(rank.tolist()) == list(range(C))
        assert rank[y[0]] == 0

    def test_any_integer_types_and_no_examples(self) -> None:
        attacked = np.array([2, 1, 1, 3])
        assert attacked_rank(P, Y.astype(np.uint64), attacked.astype(np.uint8)).tolist() == [2, 0, 1, 3]
        assert attacked_rank(P[:0], Y[:0], attacked[:0]).shape == (0,)

    @pytest.mark.parametrize(
        ("p", "y", "attacked", "message"),
        [
            (P * 2, Y, Y, r"clean_probabilities\[0\] sums to 2"),
            (P, Y + 4, Y, "labels"),
            (P, Y, Y[:2], r"attacked_prediction is int64 of shape \(2,\)"),
            (P, Y, np.array([0, 1, 2, 9]), r"attacked_prediction\[3\] is 9"),
            (P, Y, Y.astype(np.float32), "attacked_prediction is float32"),
        ],
    )
    def test_refuses(self, p: NDArray[Any], y: NDArray[Any], attacked: NDArray[Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            attacked_rank(p, y, attacked)
