"""Warnings about runs that have learned nothing."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ctrobust.outcomes import Evaluation
from ctrobust.specs import train_spec
from ctrobust.store import RunDirectory
from ctrobust.training import train
from ctrobust.training.learning_warnings import learning_warnings

LN_10 = math.log(10)


def outcomes(accuracy: float, labels: list[int] | None = None) -> Evaluation:
    """Outcomes of 200 images of 10 classes, the given share of them classified correctly."""
    y = np.array(labels or [*range(10)] * 20)
    correct = np.arange(len(y)) < round(accuracy * len(y))
    prediction = np.where(correct, y, (y + 1) % 10)
    probabilities = np.eye(10, dtype=np.float32)[prediction]
    zeros = np.zeros(len(y), dtype=np.int64)
    return Evaluation(
        labels=y, clean_probabilities=probabilities, probabilities=probabilities, clean_prediction=prediction,
        prediction=prediction, distance=zeros.astype(np.float32), forwards=zeros, backwards=zeros,
        unconfirmed=zeros.astype(bool),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("losses", "stayed"),
    [
        ([LN_10], True),
        ([2.9, LN_10 - 0.02], True),
        ([2.31, 2.30, 2.29, 2.27], True),
        ([2.31, 2.30, 2.29, 2.2], False),
        ([2.30, 1.1], False),
        ([3.4, 3.0], False),
        ([2.30, 2.30, 2.2, 2.3], False),
    ],
)
def test_a_loss_that_stays_near_ln_c_is_warned_of(losses: list[float], stayed: bool) -> None:
    warnings = learning_warnings(train_spec({}), 500, losses, outcomes(0.9))
    assert len(warnings) == stayed
    if stayed:
        assert warnings[0] == (
            f"The training loss stayed near ln 10 = 2.303, the loss of guessing: it was {losses[-1]:.3f} in the last "
            "epoch. Try a larger learning rate, more epochs or a smaller batch size."
        )


@pytest.mark.parametrize(
    ("fields", "warned"),
    [
        ({"method": "dropout"}, True),
        ({"method": "multi-sample-dropout"}, True),
        ({"method": "mdl"}, False),
        ({"method": "focal"}, False),
        ({"method": "online-label-smoothing"}, False),
        ({"recipe": {"name": "fast", "gamma": 2.0}}, True),
        ({"recipe": {"name": "trades"}}, True),
        ({"recipe": {"name": "madry", "loss": "std"}}, False),
    ],
)
def test_the_loss_is_compared_only_where_guessing_costs_ln_c(fields: dict[str, Any], warned: bool) -> None:
    assert len(learning_warnings(train_spec(fields), 500, [LN_10], outcomes(0.9))) == warned


@pytest.mark.parametrize(
    ("accuracy", "labels", "at_chance"),
    [
        (0.1, None, True),
        (0.13, None, True),
        (0.2, None, False),
        (0.0, None, True),
        (0.8, [0] * 160 + [1] * 40, True),
        (0.9, [0] * 160 + [1] * 40, False),
    ],
)
def test_an_accuracy_at_chance_is_warned_of(accuracy: float, labels: list[int] | None, at_chance: bool) -> None:
    warnings = learning_warnings(train_spec({}), 500, [1.0], outcomes(accuracy, labels))
    assert len(warnings) == at_chance
    if at_chance:
        share = "80.0%" if labels else "10.0%"
        assert warnings[0] == (
            f"The test accuracy, {accuracy:.1%}, is at chance: {share} of the test images are of the most common "
            "class. Try a larger learning rate, more epochs or a smaller batch size."
        )


def test_few_steps_are_mentioned_with_the_first_rate_of_the_cyclic_schedule() -> None:
    constant = train_spec({"schedule": {"name": "multistep", "milestones": []}})
    for spec, steps, expected in (
        (train_spec({}), 4, "The run had only 4 optimizer steps, and the first one had no effect, because the first "
                            "rate of the cyclic schedule is 0."),
        (constant, 1, "The run had only 1 optimizer step."),
    ):  # fmt: skip
        assert learning_warnings(spec, steps, [1.0], outcomes(0.1))[1:] == [expected]
        assert learning_warnings(spec, steps, [1.0], outcomes(0.9)) == []
        assert len(learning_warnings(spec, 100, [1.0], outcomes(0.1))) == 1


def test_a_run_of_one_step_records_its_warnings(tmp_path: Path) -> None:
    fields = {"limit": 16, "batch_size": 16, "epochs": 1, "model": {"width": 8}}
    record = train(train_spec(fields), RunDirectory(tmp_path / "run"))
    loss, accuracy, steps = record.warnings
    assert loss.startswith("The training loss stayed near ln 10")
    assert accuracy.startswith("The test accuracy")
    assert "only 1 optimizer step," in steps
