import json

import numpy as np
import pytest
from numpy.typing import NDArray

from ctrobust.errors import InputError
from ctrobust.outcomes import Evaluation, Interval, attacked_rank, threshold_statistics, wilson


def probabilities(*best: int) -> NDArray[np.float32]:
    """Rows of three with .6 at the class given, .3 at the next and .1 at the last."""
    row = np.array([0.6, 0.3, 0.1], dtype=np.float32)
    return np.stack([np.roll(row, one) for one in best])


def outcomes() -> Evaluation:
    """Five examples: robust, broken, a clean error, a clean error that is correct under attack, robust."""
    return Evaluation(
        labels=np.array([0, 1, 2, 2, 0]),
        clean_probabilities=probabilities(0, 1, 0, 1, 0),
        probabilities=probabilities(0, 2, 0, 2, 0),
        clean_prediction=np.array([0, 1, 0, 1, 0]),
        prediction=np.array([0, 2, 0, 2, 0]),
        distance=np.array([0.1, 0.05, 0.0, 0.02, 0.1], dtype=np.float32),
        forwards=np.array([21, 3, 0, 0, 21]),
        backwards=np.array([20, 3, 0, 0, 20]),
        unconfirmed=np.array([False, False, False, False, True]),
    )


def test_statistics_follow_from_the_arrays() -> None:
    out = outcomes()
    assert len(out) == 5
    assert out.clean_prediction.tolist() == [0, 1, 0, 1, 0]
    assert out.prediction.tolist() == [0, 2, 0, 2, 0]
    assert out.clean_correct.tolist() == [True, True, False, False, True]
    assert out.robust.tolist() == [True, False, False, False, True]  # the fourth is right only under attack
    assert out.accuracy == 3 / 5
    assert out.robust_accuracy == 2 / 5
    assert out.attack_success_rate == 3 / 5  # clean errors count
    assert out.success_on_correct == pytest.approx(1 / 3)  # one of the three correct ones
    assert out.accuracy_interval == wilson(3, 5)
    assert out.interval == wilson(2, 5) != wilson(3, 5)
    assert isinstance(out.interval, Interval)
    assert out.threshold == threshold_statistics(out.clean_probabilities, out.labels)
    assert out.attacked_rank.tolist() == [0, 1, 1, 0, 0]
    assert out.attacked_rank.tolist() == attacked_rank(out.clean_probabilities, out.labels, out.prediction).tolist()


def test_summary_is_strict_json() -> None:
    summary = outcomes().summary()
    text = json.dumps(summary, allow_nan=False)
    assert json.loads(text) == summary
    assert summary.pop("threshold") == outcomes().threshold.to_dict()
    assert summary == {
        "count": 5,
        "accuracy": 0.6,
        "accuracy_interval": [wilson(3, 5).low, wilson(3, 5).high],
        "robust_accuracy": 0.4,
        "interval": [wilson(2, 5).low, wilson(2, 5).high],
        "attack_success_rate": 0.6,
        "success_on_correct": pytest.approx(1 / 3),
        "largest_distance": pytest.approx(0.1),
        "forwards": 45,
        "backwards": 43,
        "unconfirmed": 1,
    }


@pytest.mark.parametrize("best", [0, 1])
def test_summary_is_strict_json_where_all_is_right_or_nothing(best: int) -> None:
    rows, nothing = probabilities(best, best), np.zeros(2, dtype=np.int64)
    predicted = nothing + best
    distance, unconfirmed = nothing.astype(np.float32), nothing.astype(bool)
    out = Evaluation(nothing, rows, rows, predicted, predicted, distance, nothing, nothing, unconfirmed)
    summary = out.summary()
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert summary["accuracy"] == 1 - best
    assert None in summary["threshold"]["accuracy_above"]  # no p_y is above .9


def test_arrays_round_trip() -> None:
    out = outcomes()
    arrays = out.arrays()
    assert list(arrays) == [
        "labels", "clean_probabilities", "probabilities", "clean_prediction", "prediction", "distance", "forwards",
        "backwards", "unconfirmed",
    ]  # fmt: skip
    again = Evaluation.from_arrays(arrays)
    assert again.summary() == out.summary()
    for name, values in again.arrays().items():
        assert values.dtype == arrays[name].dtype
        np.testing.assert_array_equal(values, arrays[name])


def test_damaged_arrays_are_refused() -> None:
    arrays = outcomes().arrays()
    without = {name: values for name, values in arrays.items() if name != "forwards"}
    with pytest.raises(InputError, match=r"outcomes hold .*forwards.*; got backwards, clean_prediction, "):
        Evaluation.from_arrays(without)
    with pytest.raises(InputError, match=r"; got .*extra"):
        Evaluation.from_arrays({**arrays, "extra": arrays["labels"]})
    with pytest.raises(InputError, match=r"N >= 1; got .*'labels': \(4,\)"):
        Evaluation.from_arrays({**arrays, "labels": arrays["labels"][:-1]})


def test_outcomes_do_not_change() -> None:
    with pytest.raises(AttributeError, match="cannot assign"):
        outcomes().labels = np.zeros(5, dtype=np.int64)  # type: ignore[misc]


def test_repr_is_three_lines() -> None:
    lines = repr(outcomes()).splitlines()
    assert len(lines) == 3
    assert lines[0] == "Evaluation of 5 examples, 3 classes"
    assert "60.0% [23.1, 88.2]" in lines[1]
    assert "40.0% [11.8, 76.9]" in lines[2]


@pytest.mark.parametrize(
    ("attack", "named"), [("pgd:eps=8/255", ", pgd:eps=8/255"), ("none", ", no attack"), (None, "")]
)
def test_repr_names_the_attack(attack: str | None, named: str) -> None:
    out = Evaluation.from_arrays(outcomes().arrays(), attack)
    assert out.attack == attack
    assert repr(out).splitlines()[0] == str(out).splitlines()[0] == f"Evaluation of 5 examples, 3 classes{named}"
    assert "attack" not in out.arrays()


def test_attacked_probabilities_may_be_missing() -> None:
    arrays = outcomes().arrays()
    del arrays["probabilities"]
    out = Evaluation.from_arrays(arrays)
    assert out.probabilities is None
    assert "probabilities" not in out.arrays()
    assert out.summary() == outcomes().summary()


def test_without_a_correct_image_there_is_no_success_rate_on_correct_images() -> None:
    rows, labels = probabilities(1, 1), np.zeros(2, dtype=np.int64)
    wrong, zeros = labels + 1, labels
    out = Evaluation(labels, rows, rows, wrong, wrong, zeros.astype(np.float32), zeros, zeros, zeros.astype(bool))
    assert out.success_on_correct is None
    assert out.attack_success_rate == 1.0
