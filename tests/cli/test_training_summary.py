"""What is printed about a finished run."""

from pathlib import Path
from typing import Any

import pytest

from ctrobust.cli.training_summary import training_summary
from ctrobust.specs import TrainSpec, train_spec
from tests.cli.evaluations import rows

NATURAL = TrainSpec()


def record(**more: Any) -> dict[str, Any]:
    return {
        "data": {"name": "dots", "train": 40, "test": 1234, "verified": True},
        "results": rows()[0].evaluation.summary(),
        "seconds_per_epoch": [1.5, 2.0],
        **more,
    }


@pytest.mark.parametrize(("verified", "shown"), [(True, "r: dots, 40"), (False, "r: dots (unverified), 40")])
def test_the_summary_of_a_run(capsys: pytest.CaptureFixture[str], verified: bool, shown: str) -> None:
    data = {"name": "dots", "train": 40, "test": 1234, "verified": verified}
    training_summary(Path("r"), NATURAL, record(data=data))
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith(f"{shown} training images, 2 epochs in 3.5 s\n")
    assert "test accuracy 100.0% [91.2, 100.0] of 1,234; wrong categories below 0.3333: " in out


def test_the_summary_names_a_collapse_and_the_best_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    more: dict[str, Any] = {
        "collapses": [{"epoch": 7, "before": 0.445, "after": 0.016, "one_step": 0.7}],
        "returned_to_epoch": 6,
        "validation": {
            "count": 1000,
            "best": {"epoch": 5, "validation_accuracy": 0.8, "validation_robust_accuracy": 0.451},
        },
    }
    training_summary(Path("runs/[a]"), NATURAL, record(**more))
    assert capsys.readouterr().out.splitlines()[2:5] == [
        "catastrophic overfitting in epoch 7: accuracy on a training batch is 70.0% under one step and 1.6% under "
        "PGD-5 (44.5% at best before)",
        "training stopped there; the weights are those of epoch 6",
        "best epoch on 1,000 held-out images: 5, accuracy 45.1% under PGD-10, in runs/[a]/checkpoint/best.safetensors",
    ]
    collapses = [{"epoch": epoch, "before": None, "after": 0.0, "one_step": 0.5} for epoch in (1, 2)]
    training_summary(Path("runs/[a]"), NATURAL, record(**{**more, "collapses": collapses}))
    assert capsys.readouterr().out.splitlines()[2] == (
        "catastrophic overfitting in epoch 1, the first of 2 such epochs: accuracy on a training batch is 50.0% under "
        "one step and 0.0% under PGD-5"
    )


def test_the_summary_prints_the_warnings_of_the_record(capsys: pytest.CaptureFixture[str]) -> None:
    training_summary(Path("r"), NATURAL, record(warnings=["The loss stayed near ln 4.", "The run was short."]))
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:4] == ["warning: The loss stayed near ln 4.", "warning: The run was short."]


def test_at_chance_the_confidence_threshold_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    results = {**rows()[0].evaluation.summary(), "accuracy": 0.25, "accuracy_interval": [0.14, 0.4]}
    training_summary(Path("r"), NATURAL, record(results=results))
    line = capsys.readouterr().out.splitlines()[1]
    assert "of 120" not in line
    assert line.endswith("below 0.3333 means nothing: the accuracy does not differ from that of random guesses")


def test_the_summary_ends_with_the_commands_to_run_next(capsys: pytest.CaptureFixture[str]) -> None:
    training_summary(Path("my runs/a"), NATURAL, record())
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "next:",
        "  ctrobust evaluate 'my runs/a' --attack pgd --attack s-pgd --attack apgd --eps 8/255",
        "  ctrobust report 'my runs/a' -o report.html",
    ]
    spec = train_spec({"data": "digits", "recipe": {"name": "fast", "eps": 0.1}})
    validation = {"count": 9, "best": {"epoch": 5, "validation_accuracy": 0.8}}
    training_summary(Path("a"), spec, record(validation=validation))
    attacks = "--attack pgd --attack s-pgd --attack apgd --eps 0.1"
    assert capsys.readouterr().out.splitlines()[-3:] == [
        f"  ctrobust evaluate a {attacks}",
        f"  ctrobust evaluate a/checkpoint/best.safetensors {attacks}",
        "  ctrobust report a -o report.html",
    ]
