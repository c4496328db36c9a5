"""What is printed where there is no terminal; tests/cli shows what a terminal gets."""

import itertools
import json
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from ctrobust import display
from ctrobust.attacks import FGSM, PGD, fuse
from ctrobust.data import Dataset
from ctrobust.evaluation import evaluate_each
from ctrobust.execution import StoredEvaluation
from ctrobust.outcomes import Interval

CLASSES = tuple("abcd")


def dots(verified: bool = True) -> Dataset:
    images = torch.randint(256, (40, 1, 2, 2), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    return Dataset("dots", "test", images, images.flatten(1).argmax(1), CLASSES, (0.0,), (1.0,), verified)


def rows(*, stored: bool = False) -> list[StoredEvaluation]:
    """A linear model, which gives its pixels as logits, attacked two ways."""
    attacks: list[FGSM | PGD] = [FGSM(eps=0.1), PGD(eps=0.2, loss="sce(gamma=5)")]
    outs = evaluate_each(nn.Sequential(nn.Flatten()).eval(), dots(), attacks)
    seconds = None if stored else 1.25
    file = Path("outcomes/x.npz") if stored else None
    return [StoredEvaluation(str(attack), out, file, seconds) for attack, out in zip(attacks, outs, strict=True)]


def test_percent_has_its_interval() -> None:
    assert display.percent(0.932, Interval(0.91, 0.95)) == "93.2% [91.0, 95.0]"
    assert display.percent(0, [0.0, 0.0123]) == "0.0% [0.0, 1.2]"


def test_an_error_is_plain_text_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    display.complain("no [bold]file[/bold] " + "x" * 300)
    display.complain("stopped", interrupted=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"error: no [bold]file[/bold] {'x' * 300}\ninterrupted: stopped\n"


def test_a_run_prints_a_line_an_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    with display.status("loading"), display.TrainingBar("train runs/[a]") as bar:
        bar.step(1, 4, 0, 2.5)
        bar.epoch({"epoch": 1, "loss": 2.25, "lr": 0.01, "seconds": 3.14})
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "train runs/[a]: epoch 1, loss 2.2500, lr 0.01, 3.1 s\n"


def test_the_line_of_an_epoch_says_what_was_measured_and_that_it_collapsed(capsys: pytest.CaptureFixture[str]) -> None:
    metrics = {"epoch": 3, "loss": 1.5, "lr": 0.2, "seconds": 3.14, "watched_accuracy": 0.0312, "collapsed": True}
    metrics["watched_one_step_accuracy"] = 0.5
    more = {"validation_accuracy": 0.8, "validation_robust_accuracy": 0.4}
    with display.TrainingBar("train runs/a") as bar:
        bar.epoch({**metrics, **more})
        bar.step(4, 8, 3, 1.4)
        bar.epoch({**metrics, "epoch": 4, "collapsed": False})
    assert (
        bar.bar.tasks[0].fields["note"]
        == "epoch 4 loss 1.4000 PGD-5 3% held out 80% PGD-10 40% [bold red]COLLAPSED in epoch 3[/]"
    )
    assert capsys.readouterr().err.splitlines() == [
        "train runs/a: epoch 3, loss 1.5000, lr 0.2, training batch under one step 50.0% and PGD-5 3.1%, "
        "held-out images 80.0% and under PGD-10 40.0%, 3.1 s COLLAPSED in epoch 3",
        "train runs/a: epoch 4, loss 1.5000, lr 0.2, training batch under one step 50.0% and PGD-5 3.1%, 3.1 s",
    ]


def test_an_attack_prints_a_line_every_ten_seconds_and_at_the_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count(0.0, 2.0)  # two seconds pass each time somebody looks
    monkeypatch.setattr(display, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    with display.attack_bar("evaluate runs/[a]") as progress:
        for done in range(1, 9):
            progress(done, 8, "pgd [b]")
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert lines[-1] == "evaluate runs/[a]: 100% pgd [b]"
    assert len(lines) == 2
    assert lines[0].endswith("% pgd [b]")


def test_the_table_of_an_evaluation(capsys: pytest.CaptureFixture[str]) -> None:
    found = rows()
    display.evaluation_table(Path("runs/[a]"), dots(), found)
    out, err = capsys.readouterr()
    assert err == ""
    assert "\x1b" not in out
    assert "runs/[a] on dots (test), 40 images\naccuracy 100.0% [91.2, 100.0]\n" in out
    for row in found:
        (line,) = [line for line in out.splitlines() if line.strip().startswith(row.attack)]
        one = row.evaluation
        assert display.percent(one.robust_accuracy, one.interval) in line
        assert f" {100 * one.attack_success_rate:.1f}% " in line
        assert f" {one.forwards.mean():.1f} + {one.backwards.mean():.1f} " in line
        assert line.split()[-1] in ("1.2", "1.3")
    assert "confidence threshold 1/3: " in out
    assert " of 120 wrong categories are below it" in out
    assert "largest p_y among errors" not in out  # there are none


def test_the_table_says_what_was_stored_and_what_is_unverified(capsys: pytest.CaptureFixture[str]) -> None:
    display.evaluation_table(Path("runs/a"), dots(verified=False), rows(stored=True))
    out = capsys.readouterr().out
    assert "runs/a on dots (test, unverified), 40 images" in out
    assert [line.split()[-1] for line in out.splitlines() if "eps=" in line] == ["stored", "stored"]


def test_without_an_attack_there_is_no_table(capsys: pytest.CaptureFixture[str]) -> None:
    (clean,) = evaluate_each(nn.Sequential(nn.Flatten()).eval(), dots(), [None])
    display.evaluation_table(Path("runs/a"), dots(), [StoredEvaluation("none", clean, None, 0.1)])
    out = capsys.readouterr().out
    assert "accuracy 100.0%" in out
    assert "robust accuracy" not in out
    assert "confidence threshold 1/3" in out


def test_the_json_of_an_evaluation_holds_every_figure() -> None:
    found = rows(stored=True)
    document = display.evaluation_json(Path("runs/a"), dots(verified=False), found)
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert document["run"] == "runs/a"
    assert document["data"] == {"name": "dots", "split": "test", "verified": False, "count": 40}
    assert document["accuracy"] == 1.0
    assert document["threshold"] == found[0].evaluation.threshold.to_dict()
    assert [one["attack"] for one in document["attacks"]] == ["fgsm:eps=0.1", "pgd:eps=0.2,loss=sce(gamma=5)"]
    for one, row in zip(document["attacks"], found, strict=True):
        assert one["robust_accuracy"] == row.evaluation.robust_accuracy
        assert one["interval"] == [row.evaluation.interval.low, row.evaluation.interval.high]
        assert one["outcomes"] == "outcomes/x.npz"
        assert one["seconds"] is None
        assert "threshold" not in one


def test_the_json_without_an_attack() -> None:
    (clean,) = evaluate_each(nn.Sequential(nn.Flatten()).eval(), dots(), [None])
    document = display.evaluation_json(Path("runs/a"), dots(), [StoredEvaluation("none", clean, None, 0.1)])
    assert document["attacks"] == []
    assert document["accuracy_interval"] == [clean.interval.low, clean.interval.high]


@pytest.mark.parametrize(("verified", "shown"), [(True, "r: dots, 40"), (False, "r: dots (unverified), 40")])
def test_the_summary_of_a_run(capsys: pytest.CaptureFixture[str], verified: bool, shown: str) -> None:
    record: dict[str, Any] = {
        "data": {"name": "dots", "train": 40, "test": 1234, "verified": verified},
        "results": rows()[0].evaluation.summary(),
        "seconds_per_epoch": [1.5, 2.0],
    }
    display.training_summary(Path("r"), record)
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith(f"{shown} training images, 2 epochs in 3.5 s\n")
    assert "test accuracy 100.0% [91.2, 100.0] of 1,234; wrong categories below 0.3333: " in out


def test_the_summary_names_a_collapse_and_the_best_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    record: dict[str, Any] = {
        "data": {"name": "dots", "train": 40, "test": 1234, "verified": True},
        "results": rows()[0].evaluation.summary(),
        "seconds_per_epoch": [1.5, 2.0],
        "collapses": [{"epoch": 7, "before": 0.445, "after": 0.016, "one_step": 0.7}],
        "returned_to_epoch": 6,
        "validation": {
            "count": 1000,
            "best": {"epoch": 5, "validation_accuracy": 0.8, "validation_robust_accuracy": 0.451},
        },
    }
    display.training_summary(Path("runs/[a]"), record)
    assert capsys.readouterr().out.splitlines()[2:] == [
        "collapsed in epoch 7: of a training batch one step left 70.0%, PGD-5 1.6% (44.5% the epoch before)",
        "ended there; the weights are those of epoch 6",
        "best epoch on 1,000 held-out images: 5, 45.1% under PGD-10, in runs/[a]/checkpoint/best.safetensors",
    ]
    falls = [{"epoch": epoch, "before": None, "after": 0.0, "one_step": 0.5} for epoch in (1, 2)]
    display.training_summary(Path("runs/[a]"), {**record, "collapses": falls})
    assert (
        capsys.readouterr().out.splitlines()[2]
        == "collapsed in epoch 1, the first of 2 such epochs: of a training batch one step left 50.0%, PGD-5 0.0%"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_first_signal_is_noted_and_a_second_one_interrupts(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with display.stoppable() as stop:
        assert not stop()
        os.kill(os.getpid(), number)
        assert stop()
        with pytest.raises(display.SignalInterrupt, match="last checkpoint is intact") as raised:
            os.kill(os.getpid(), number)
        assert raised.value.exit_code == 130
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_attack_is_interrupted_by_the_first_signal(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(display.SignalInterrupt, match="finished attacks are stored") as raised, display.interruptible():
        os.kill(os.getpid(), number)
    assert raised.value.exit_code == 130
    assert signal.getsignal(number) is before


def test_a_signal_is_not_swallowed_by_what_catches_errors() -> None:
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3)).eval()
    model.register_forward_pre_hook(lambda *_: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(display.SignalInterrupt), display.interruptible():
        fuse(model, torch.rand(2, 4))
