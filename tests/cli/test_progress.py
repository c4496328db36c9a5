"""Progress with and without a terminal; test_demo and test_evaluate show it in real terminals."""

import io
import itertools
from types import SimpleNamespace

import pytest
from rich.console import Console
from rich.progress import Progress

from ctrobust.cli import progress


def on_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> io.StringIO:
    """Give the progress line a terminal of this width, without escape sequences."""
    text = io.StringIO()
    monkeypatch.setattr(
        progress,
        "messages",
        Console(file=text, force_terminal=True, width=width, color_system=None, legacy_windows=False),
    )
    return text


def training_line(monkeypatch: pytest.MonkeyPatch, width: int, metrics: dict[str, object] | None = None) -> str:
    on_terminal(monkeypatch, width)
    line = progress.TrainingBar("train", "runs/digits-mnistnet-0123456789abcdef")
    if metrics:
        line.epoch({"epoch": 1, "loss": 1.0, "lr": 0.1, "seconds": 1.0, **metrics})
    line.step(861450, 1722900, 2, 0.12345)
    return rendered(line.progress, width)


def rendered(line: Progress, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    with console.capture() as captured:
        console.print(line.get_renderable())
    (shown,) = captured.get().splitlines()
    return shown.rstrip()


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (110, "train runs/digits-mnistnet-0123456789abcdef ━"),
        (80, "train ━"),
        (50, "train  50% epoch 3 loss 0.1235 "),
        (30, "train  50% epoch 3 ETA -:--:--"),
        (25, " 50% epoch 3 ETA -:--:--"),
        (18, " 50% ETA -:--:--"),
    ],
)
def test_a_narrow_terminal_loses_the_path_then_the_bar_then_the_loss(
    monkeypatch: pytest.MonkeyPatch, width: int, shown: str
) -> None:
    line = training_line(monkeypatch, width)
    assert line.startswith(shown)
    assert len(line) <= width
    assert "ETA" in line
    assert "1722900" not in line
    assert ("━" in line) is (width >= 80)
    assert ("loss 0.1235" in line) is (width >= 50)


def test_what_was_measured_is_on_the_line_of_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics: dict[str, object] = {
        "watched_accuracy": 0.08, "validation_accuracy": 0.12, "validation_robust_accuracy": 0.1, "collapsed": True,
    }  # fmt: skip
    line = training_line(monkeypatch, 80, metrics)
    assert line.startswith(" 50% epoch 3 ")
    assert "PGD-5 8% held out 12% PGD-10 10% COLLAPSED in epoch 1" in line
    assert len(line) <= 80


def test_after_the_last_step_the_line_says_that_the_network_is_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    on_terminal(monkeypatch, 80)
    line = progress.TrainingBar("train", "runs/a")
    line.step(8, 8, 1, 0.5)
    shown = rendered(line.progress, 80)
    assert "testing" in shown
    assert "ETA" not in shown


def test_nothing_is_shown_where_no_progress_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    text = on_terminal(monkeypatch, 80)
    with progress.attack_progress("evaluate", "runs/a"):
        pass
    assert "evaluate" not in text.getvalue()
    assert "%" not in text.getvalue()


def test_a_download_fits_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    text = on_terminal(monkeypatch, 80)
    with progress.download_progress("fetch", "fashion-mnist") as report:
        report(10_000_000, 30_000_000)
    line = [line for line in text.getvalue().splitlines() if "ETA" in line][-1].removeprefix("\x1b[2K").strip()
    assert line.startswith("fetch fashion-mnist ━")
    assert "10.0/30.0 MB" in line
    assert "ETA" in line
    assert len(line) <= 80


def test_a_run_prints_one_line_per_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.TrainingBar("train", "runs/[a]") as line:
        line.step(1, 4, 0, 2.5)
        line.epoch({"epoch": 1, "loss": 2.25, "lr": 0.01, "seconds": 3.14})
        line.step(4, 4, 1, 2.5)
        line.epoch({"epoch": 2, "loss": 2.0, "lr": 0.01, "seconds": 3.14})
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "train runs/[a]: epoch 1, loss 2.2500, lr 0.01, 3.1 s",
        "train runs/[a]: epoch 2, loss 2.0000, lr 0.01, 3.1 s",
        "train runs/[a]: testing",
    ]


def test_the_line_of_an_epoch_has_what_was_measured_and_that_it_collapsed(capsys: pytest.CaptureFixture[str]) -> None:
    metrics = {"epoch": 3, "loss": 1.5, "lr": 0.2, "seconds": 3.14, "watched_accuracy": 0.0312, "collapsed": True}
    metrics["watched_one_step_accuracy"] = 0.5
    more = {"validation_accuracy": 0.8, "validation_robust_accuracy": 0.4}
    with progress.TrainingBar("train", "runs/a") as line:
        line.epoch({**metrics, **more})
        line.step(4, 8, 3, 1.4)
        assert line.measured == "PGD-5 3% held out 80% PGD-10 40%"
        line.epoch({**metrics, "epoch": 4, "collapsed": False})
    assert line.collapse == "COLLAPSED in epoch 3"
    assert capsys.readouterr().err.splitlines() == [
        "train runs/a: epoch 3, loss 1.5000, lr 0.2, training batch under one step 50.0% and PGD-5 3.1%, "
        "held-out images 80.0% and under PGD-10 40.0%, 3.1 s COLLAPSED in epoch 3",
        "train runs/a: epoch 4, loss 1.5000, lr 0.2, training batch under one step 50.0% and PGD-5 3.1%, 3.1 s",
    ]


def test_an_attack_prints_a_line_every_ten_seconds_and_at_the_end(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count(0.0, 2.0)  # two seconds pass between two looks at the clock
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    with progress.attack_progress("evaluate", "runs/[a]") as report:
        for done in range(1, 9):
            report(done, 8, "pgd [b]")
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert lines[-1] == "evaluate runs/[a]: 100% pgd [b]"
    assert len(lines) == 2
    assert lines[0].endswith("% pgd [b]")
