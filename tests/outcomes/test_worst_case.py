"""The worst case over attacks, against sets of examples counted by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrobust.errors import InputError
from ctrobust.outcomes import Evaluation, wilson, worst_case


def outcomes(labels: list[int], clean: list[int], attacked: list[int]) -> Evaluation:
    count = len(labels)
    zeros = np.zeros(count, np.int64)
    return Evaluation(
        labels=np.array(labels),
        clean_probabilities=np.eye(3, dtype=np.float32)[clean],
        probabilities=None,
        clean_prediction=np.array(clean),
        prediction=np.array(attacked),
        distance=np.zeros(count, np.float32),
        forwards=zeros,
        backwards=zeros,
        unconfirmed=np.zeros(count, bool),
    )


LABELS, CLEAN = [0, 1, 2, 0, 1], [0, 1, 2, 1, 1]  # the fourth example is misclassified without an attack
FIRST, SECOND = [1, 1, 2, 1, 1], [1, 1, 0, 1, 0]


def test_an_example_survives_only_if_it_survives_every_attack() -> None:
    found = worst_case({"a": outcomes(LABELS, CLEAN, FIRST), "b": outcomes(LABELS, CLEAN, SECOND)})
    assert found.robust.tolist() == [False, True, False, False, False]
    assert found.broken == {"a": 1, "b": 3}
    assert found.alone == {"a": 0, "b": 2}
    assert found.robust_accuracy == 1 / 5
    assert found.interval == wilson(1, 5)


@given(st.lists(st.lists(st.integers(0, 2), min_size=5, max_size=5), min_size=1, max_size=4))
def test_it_is_never_above_any_of_its_attacks(predictions: list[list[int]]) -> None:
    evaluations = {str(i): outcomes(LABELS, CLEAN, row) for i, row in enumerate(predictions)}
    found = worst_case(evaluations)
    assert all((found.robust <= one.robust).all() for one in evaluations.values())
    broken = int(outcomes(LABELS, CLEAN, CLEAN).clean_correct.sum() - found.robust.sum())
    assert max(found.broken.values()) <= broken <= sum(found.broken.values())
    assert sum(found.alone.values()) <= broken


def test_other_examples_or_another_model_are_refused() -> None:
    one = outcomes(LABELS, CLEAN, FIRST)
    with pytest.raises(InputError, match="b and a are not evaluations of one model on the same examples"):
        worst_case({"a": one, "b": outcomes(LABELS, LABELS, FIRST)})
    with pytest.raises(InputError, match="not evaluations of one model"):
        worst_case({"a": one, "b": outcomes(LABELS[:3], CLEAN[:3], FIRST[:3])})
    with pytest.raises(InputError, match="at least one evaluation"):
        worst_case({})
