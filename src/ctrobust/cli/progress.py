"""Progress on standard error: one line that fits the terminal, or plain lines from time to time without a terminal."""

import contextlib
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markup import escape
from rich.progress import (
    DownloadColumn,
    Progress,
    ProgressColumn,
    Task,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ctrobust.cli.console import messages, printable

SECONDS_BETWEEN_LINES = 10
NARROWEST_BAR, WIDEST_BAR = 10, 40
DROPPED_FIRST = ("path", "bar", "elapsed", "loss", "attack", "speed", "action", "accuracy", "epoch")
"""Pieces of the line in the order in which a narrow terminal loses them; percent and ETA always stay."""


class FittedLine:
    """The pieces of a progress line that fit the width; the bar takes the space that is left."""

    def __init__(self, pieces: dict[str, Text], task: Task) -> None:
        self.pieces = {name: piece for name, piece in pieces.items() if piece.plain}
        self.task = task

    def fitting(self, width: int) -> list[str]:
        """The names of the pieces that fit, "bar" among them, in their order."""
        names = list(self.pieces)
        for dropped in ("", *DROPPED_FIRST):
            names = [name for name in names if name != dropped]
            if self.width(names) <= width:
                break
        return names

    def width(self, names: list[str]) -> int:
        """The least width of a line of these pieces, with a space between any two."""
        cells = [NARROWEST_BAR if name == "bar" else self.pieces[name].cell_len for name in names]
        return sum(cells) + max(0, len(cells) - 1)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console
        names = self.fitting(options.max_width)
        bar = min(WIDEST_BAR, NARROWEST_BAR + options.max_width - self.width(names))
        line = Table.grid(padding=(0, 1))
        row: list[RenderableType] = []
        for name in names:
            line.add_column(no_wrap=True)
            task = self.task
            row.append(ProgressBar(task.total, task.completed, width=bar) if name == "bar" else self.pieces[name])
        line.add_row(*row)
        yield line


class _LineColumn(ProgressColumn):
    """The whole progress line as one column, made anew from the task at each refresh."""

    def __init__(self, pieces: Callable[[Task], dict[str, Text]]) -> None:
        super().__init__()
        self.pieces = pieces
        self.elapsed, self.remaining = TimeElapsedColumn(), TimeRemainingColumn()

    def render(self, task: Task) -> FittedLine:
        """Put the pieces of every kind of work between its name and its times."""
        fields = task.fields
        pieces = {"action": Text(fields["action"]), "path": Text(printable(fields["path"])), "bar": Text("-")}
        pieces |= self.pieces(task)
        pieces["elapsed"] = self.elapsed.render(task)
        if not task.finished:
            pieces["ETA"] = Text("ETA ").append_text(self.remaining.render(task))
        return FittedLine(pieces, task)


def _progress(pieces: Callable[[Task], dict[str, Text]], *, hidden: bool = False) -> Progress:
    return Progress(_LineColumn(pieces), console=messages, disable=hidden or not messages.is_terminal)


def _percent(task: Task) -> Text:
    return Text(f"{int(task.percentage):3d}%")


class TrainingBar:
    """Progress of a training run: a line that moves on a terminal, else one line per epoch."""

    def __init__(self, action: str, path: str, *, hidden: bool = False) -> None:
        self.title = f"{action} {path}"
        self.hidden = hidden
        self.progress = _progress(self._pieces, hidden=hidden)
        # invisible until the first step: before it nothing is known of how much there is to do
        self.task = self.progress.add_task("", total=None, visible=False, action=action, path=path, epoch=0, loss=0.0)
        self.measured = self.collapse = ""
        self.trained = False

    def __enter__(self) -> "TrainingBar":
        self.progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.progress.stop()

    def _pieces(self, task: Task) -> dict[str, Text]:
        if task.finished:
            return {"percent": Text("trained, testing"), "collapse": Text(self.collapse, style="bold red")}
        return {
            "percent": _percent(task),
            "epoch": Text(f"epoch {task.fields['epoch']}"),
            "loss": Text(f"loss {task.fields['loss']:.4f}"),
            "accuracy": Text(self.measured),
            "collapse": Text(self.collapse, style="bold red"),
        }

    def step(self, done: int, total: int, epoch: int, loss: float) -> None:
        """Move the line: `done` of `total` steps, in `epoch` from 0, with the mean loss of the epoch so far."""
        self.trained = done == total
        self.progress.update(self.task, completed=done, total=total, visible=True, epoch=epoch + 1, loss=loss)

    def epoch(self, metrics: dict[str, Any]) -> None:
        """Show what was measured after an epoch."""
        labels = {
            "watched_accuracy": "PGD-5",
            "validation_accuracy": "held out",
            "validation_robust_accuracy": "PGD-10",
        }
        self.measured = " ".join(
            f"{label} {100 * metrics[key]:.0f}%" for key, label in labels.items() if key in metrics
        )
        if metrics.get("collapsed"):
            self.collapse = f"COLLAPSED in epoch {metrics['epoch']}"
        if self.progress.disable and not self.hidden:
            collapse = f" {self.collapse}" if metrics.get("collapsed") else ""
            messages.print(
                f"{escape(self.title)}: epoch {metrics['epoch']}, loss {metrics['loss']:.4f}, "
                f"lr {metrics['lr']:.4g}{_accuracies(metrics)}, {metrics['seconds']:.1f} s{collapse}",
                soft_wrap=True,
            )
            if self.trained:
                messages.print(f"{escape(self.title)}: testing", soft_wrap=True)


def _accuracies(metrics: dict[str, Any]) -> str:
    """The accuracies that were measured after an epoch, as a part of its line."""
    labels = {
        "watched_one_step_accuracy": ", training batch under one step",
        "watched_accuracy": " and PGD-5",
        "validation_accuracy": ", held-out images",
        "validation_robust_accuracy": " and under PGD-10",
    }
    return "".join(f"{label} {100 * metrics[key]:.1f}%" for key, label in labels.items() if key in metrics)


@contextlib.contextmanager
def attack_progress(action: str, path: str) -> Iterator[Callable[[float, float, str], None]]:
    """Progress of an evaluation: a line that moves on a terminal, else a line every ten seconds.

    Nothing is shown for attacks whose outcomes are stored: they report no progress.
    """
    progress = _progress(lambda task: {"percent": _percent(task), "attack": Text(printable(task.fields["attack"]))})
    task = progress.add_task("", total=None, visible=False, action=action, path=path, attack="")
    printed = time.monotonic()

    def report(done: float, total: float, attack: str) -> None:
        nonlocal printed
        progress.update(task, completed=done, total=total, visible=True, attack=attack)
        if progress.disable and (time.monotonic() - printed >= SECONDS_BETWEEN_LINES or done == total):
            printed = time.monotonic()
            line = f"{action} {path}: {done / total:.0%} {attack}".rstrip()
            messages.print(escape(line), soft_wrap=True)

    with progress:
        yield report


@contextlib.contextmanager
def download_progress(action: str, name: str) -> Iterator[Callable[[int, int | None], None]]:
    """Progress of a download in bytes, on a terminal only."""
    size, speed = DownloadColumn(), TransferSpeedColumn()
    progress = _progress(lambda task: {"size": size.render(task), "speed": speed.render(task)})
    task = progress.add_task("", total=None, action=action, path=name)
    with progress:
        yield lambda done, total: progress.update(task, completed=done, total=total)
