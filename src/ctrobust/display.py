"""What a person sees: bars and notes on standard error, tables on standard output, plain text off a terminal."""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

if TYPE_CHECKING:
    from ctrobust.data import Dataset
    from ctrobust.data.catalog import Row
    from ctrobust.execution import StoredEvaluation
    from ctrobust.outcomes import Evaluation, Interval

notes = Console(stderr=True, highlight=False)


def tables() -> Console:
    """Standard output; a pipe or file gets lines as long as they need to be."""
    plain = Console(highlight=False)
    return plain if plain.is_terminal else Console(highlight=False, width=1000)


def complain(message: str, *, interrupted: bool = False) -> None:
    """An error, in red where there is colour."""
    notes.print(f"[bold red]{'interrupted' if interrupted else 'error'}:[/] {escape(message)}", soft_wrap=True)


def warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """A warning as a note: what a user is told by this package is one sentence, of others also where it comes from."""
    del file, line
    where = "" if Path(__file__).parent in Path(filename).parents else f" ({category.__name__}, {filename}:{lineno})"
    notes.print(f"[yellow]note:[/] {escape(str(message))}{escape(where)}", soft_wrap=True)


@contextlib.contextmanager
def status(text: str) -> Iterator[None]:
    """A spinner while something loads."""
    with notes.status(text) if notes.is_terminal else contextlib.nullcontext():
        yield


def _bar(*, hidden: bool = False) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        TextColumn("ETA"),
        TimeRemainingColumn(),
        console=notes,
        disable=hidden or not notes.is_terminal,
    )


class TrainingBar:
    """Progress of a run: a bar on a terminal, else a line an epoch."""

    def __init__(self, title: str, *, hidden: bool = False) -> None:
        self.title = title
        self.hidden = hidden
        self.bar = _bar(hidden=hidden)
        self.task = self.bar.add_task(escape(title), total=None, note="")
        self.measured = self.fallen = ""

    def __enter__(self) -> "TrainingBar":
        self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.bar.stop()

    def step(self, done: int, total: int, epoch: int, loss: float) -> None:
        """Move the bar."""
        note = f"epoch {epoch + 1} loss {loss:.4f}{self.measured}{self.fallen}"
        self.bar.update(self.task, completed=done, total=total, note=note)

    def epoch(self, metrics: dict[str, Any]) -> None:
        """Print a line where there is no bar; what the collapse watch saw is told in both."""
        words = {"watched_accuracy": "PGD-5", "validation_accuracy": "held out", "validation_robust_accuracy": "PGD-10"}
        told = (f" {word} {100 * metrics[key]:.0f}%" for key, word in words.items() if key in metrics)
        self.measured = "".join(told)
        if metrics.get("collapsed"):
            self.fallen = f" [bold red]COLLAPSED in epoch {metrics['epoch']}[/]"
        if self.bar.disable and not self.hidden:
            notes.print(
                f"{escape(self.title)}: epoch {metrics['epoch']}, loss {metrics['loss']:.4f}, "
                f"lr {metrics['lr']:.4g}{_measured(metrics)}, {metrics['seconds']:.1f} s"
                f"{self.fallen if metrics.get('collapsed') else ''}",
                soft_wrap=True,
            )


def _measured(metrics: dict[str, Any]) -> str:
    """What an epoch's metrics say besides its loss."""
    words = {
        "watched_one_step_accuracy": ", training batch under one step",
        "watched_accuracy": " and PGD-5",
        "validation_accuracy": ", held-out images",
        "validation_robust_accuracy": " and under PGD-10",
    }
    return "".join(f"{word} {100 * metrics[key]:.1f}%" for key, word in words.items() if key in metrics)


@contextlib.contextmanager
def attack_bar(title: str) -> Iterator[Callable[[float, float, str], None]]:
    """Progress of an evaluation: a bar on a terminal, else a line every ten seconds."""
    bar, told = _bar(), time.monotonic()
    task = bar.add_task(escape(title), total=None, note="")

    def progress(done: float, total: float, what: str) -> None:
        nonlocal told
        bar.update(task, completed=done, total=total, note=escape(what))
        if bar.disable and (time.monotonic() - told >= 10 or done == total):
            told = time.monotonic()
            notes.print(f"{escape(title)}: {done / total:.0%} {escape(what)}".rstrip(), soft_wrap=True)

    with bar:
        yield progress


@contextlib.contextmanager
def download_bar(title: str) -> Iterator[Callable[[int, int | None], None]]:
    """Progress of a download, in bytes."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TextColumn("ETA"),
        TimeRemainingColumn(),
        console=notes,
        disable=not notes.is_terminal,
    )
    task = bar.add_task(escape(title), total=None)
    with bar:
        yield lambda done, total: bar.update(task, completed=done, total=total)


class SignalInterrupt(BaseException):
    """A signal: like KeyboardInterrupt no Exception, so that nothing which catches those swallows it."""

    exit_code = 130


@contextlib.contextmanager
def stoppable() -> Iterator[Callable[[], bool]]:
    """Ctrl-C and SIGTERM are noted, for work that asks whether to stop; a second one interrupts at once."""
    asked: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        if asked:
            raise SignalInterrupt("stopped at once; the last checkpoint is intact")
        asked.append(number)
        notes.print("stopping after this batch; a second Ctrl-C stops at once")

    with _handling(note):
        yield lambda: bool(asked)


@contextlib.contextmanager
def interruptible(left: str = "finished attacks are stored and will not be done again") -> Iterator[None]:
    """Ctrl-C and SIGTERM end the work cleanly; `left` says what is left of it."""

    def end(_number: int, _frame: FrameType | None) -> None:
        raise SignalInterrupt(f"stopped; {left}")

    with _handling(end):
        yield


@contextlib.contextmanager
def _handling(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def percent(share: float, interval: "Interval | Sequence[float]") -> str:
    """A share with its interval, as in `93.2% [91.0, 95.0]`."""
    low, high = interval if isinstance(interval, Sequence) else (interval.low, interval.high)
    return f"{100 * share:.1f}% [{100 * low:.1f}, {100 * high:.1f}]"


def _count(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,}"


def demo_table(rows: "Sequence[tuple[str, Sequence[StoredEvaluation]]]", out: Path) -> None:
    """One line a network."""
    console = tables()
    first = rows[0][1][0].evaluation
    radius = rows[0][1][0].attack.partition("eps=")[2]
    table = Table(
        title=f"digits, {len(first)} test images, attacks within {radius}; 95% intervals",
        box=box.SIMPLE_HEAD,
        title_justify="left",
    )
    table.add_column("network")
    table.add_column("accuracy")
    for name in ("FGSM", "PGD-20", "S-PGD-20", f"APGD-CE, first {len(rows[0][1][-1].evaluation)}"):
        table.add_column(name)
    table.add_column(f"wrong categories below 1/{first.probabilities.shape[1] - 1}")
    for method, attacked in rows:
        clean: Evaluation = attacked[0].evaluation
        cells = [percent(one.evaluation.robust_accuracy, one.evaluation.interval) for one in attacked]
        below = _count(clean.threshold.wrong_below, clean.threshold.wrong_total)
        table.add_row(method, percent(clean.accuracy, clean.accuracy_interval), *cells, below)
    console.print(table)
    names = ", ".join(str(out / method) for method, _ in rows)
    console.print(f"run directories: {escape(names)}", soft_wrap=True)


def say(line: str) -> None:
    """A line on standard output, as it is."""
    tables().print(line, markup=False, soft_wrap=True)


def catalogue(rows: dict[str, str]) -> None:
    """Names with one line each."""
    width = max(map(len, rows))
    for name, line in rows.items():
        say(f"{name:{width}}  {line}")


def data_table(rows: "Sequence[Row]") -> None:
    """Data sets: name, what it is, where it was found, whether it is the published one."""
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("data set", "what", "found in", "verified"):
        table.add_column(name, overflow="fold")
    words = {True: "yes", False: "unverified", None: ""}
    for row in rows:
        found = str(row.place) if row.place else "embedded" if row.splits else "" if ":" in row.name else "not found"
        table.add_row(row.name, escape(row.description), escape(found), words[row.verified])
    tables().print(table)


def training_summary(path: Path, record: dict[str, Any]) -> None:
    """What a finished run gave."""
    results, data = record["results"], record["data"]
    threshold = results["threshold"]
    unverified = "" if data["verified"] else " (unverified)"
    epochs, seconds = len(record["seconds_per_epoch"]), sum(record["seconds_per_epoch"])
    console = tables()
    console.print(
        f"{path}: {data['name']}{unverified}, {data['train']:,} training images, "
        f"{epochs} epoch{'s' if epochs > 1 else ''} in {seconds:.1f} s\n"
        f"test accuracy {percent(results['accuracy'], results['accuracy_interval'])} of {data['test']:,}; wrong "
        f"categories below {threshold['threshold']:.4g}: {_count(threshold['wrong_below'], threshold['wrong_total'])}",
        markup=False,
        soft_wrap=True,
    )
    if collapses := record.get("collapses"):
        first, times = collapses[0], f", the first of {len(collapses)} such epochs" if len(collapses) > 1 else ""
        before = "" if first["before"] is None else f" ({100 * first['before']:.1f}% at best before)"
        say(
            f"collapsed in epoch {first['epoch']}{times}: of a training batch one step left "
            f"{100 * first['one_step']:.1f}%, PGD-5 {100 * first['after']:.1f}%{before}"
        )
    if "returned_to_epoch" in record:
        say(f"ended there; the weights are those of epoch {record['returned_to_epoch']}")
    if best := record.get("validation", {}).get("best"):
        score = best.get("validation_robust_accuracy", best["validation_accuracy"])
        under = " under PGD-10" if "validation_robust_accuracy" in best else ""
        count, file = record["validation"]["count"], path / "checkpoint" / "best.safetensors"
        say(f"best epoch on {count:,} held-out images: {best['epoch']}, {100 * score:.1f}%{under}, in {file}")


def evaluation_table(run: Path, data: "Dataset", rows: "Sequence[StoredEvaluation]") -> None:
    """One line an attack, and the confidence threshold below."""
    console = tables()
    first = rows[0].evaluation
    unverified = "" if data.verified else ", unverified"
    console.print(
        f"{run} on {data.name} ({data.split}{unverified}), {len(first):,} images\n"
        f"accuracy {percent(first.accuracy, first.accuracy_interval)}",
        markup=False,
        soft_wrap=True,
    )
    attacked = [row for row in rows if row.attack != "none"]
    if attacked:
        table = Table(box=box.SIMPLE_HEAD)
        table.add_column("attack", overflow="fold")
        for name in ("robust accuracy", "success rate", "forward + backward passes an image", "seconds"):
            table.add_column(name, justify="right")
        for row in attacked:
            one = row.evaluation
            passes = f"{one.forwards.mean():.1f} + {one.backwards.mean():.1f}"
            took = "stored" if row.seconds is None else f"{row.seconds:.1f}"
            table.add_row(
                escape(row.attack),
                escape(percent(one.robust_accuracy, one.interval)),
                f"{100 * one.attack_success_rate:.1f}%",
                passes,
                took,
            )
        console.print(table)
        for row in attacked:
            for reason in row.left_out:
                console.print(f"left out of {row.attack}: {reason}", markup=False, soft_wrap=True)
    _threshold_lines(console, first)


def _threshold_lines(console: Console, clean: "Evaluation") -> None:
    statistics = clean.threshold
    classes = clean.probabilities.shape[1]
    lines = [
        f"confidence threshold 1/{classes - 1}: {_count(statistics.wrong_below, statistics.wrong_total)} "
        "wrong categories are below it"
    ]
    swept = zip(statistics.sweep_thresholds, statistics.sweep_counts, strict=True)
    chosen = [pair for i, pair in enumerate(swept) if i in (5, 9, 12, 15)]
    lines.append("  swept down: " + ", ".join(f"{count:,} below {level:.2g}" for level, count in chosen))
    if statistics.largest_wrong_confidence is not None:
        lines.append(f"  largest p_y among errors: {statistics.largest_wrong_confidence:.4f}")
    above = [
        f"{100 * accuracy:.2f}% above {level:.2g}"
        for level, accuracy in zip(statistics.confidence_levels, statistics.accuracy_above, strict=True)
        if accuracy is not None and level in (0.5, 0.3, 0.1, 0.0)
    ]
    lines.append("  accuracy among p_y > t: " + ", ".join(above))
    console.print("\n".join(lines), markup=False, soft_wrap=True)


def evaluation_json(run: Path, data: "Dataset", rows: "Sequence[StoredEvaluation]") -> dict[str, Any]:
    """All figures as plain values."""
    first = rows[0].evaluation.summary()
    return {
        "run": str(run),
        "data": {"name": data.name, "split": data.split, "verified": data.verified, "count": first["count"]},
        "accuracy": first["accuracy"],
        "accuracy_interval": first["accuracy_interval"],
        "threshold": first["threshold"],
        "attacks": [
            {
                "attack": row.attack,
                **{k: v for k, v in row.evaluation.summary().items() if not k.startswith(("accuracy", "threshold"))},
                "left_out": list(row.left_out),
                "seconds": row.seconds,
                "outcomes": None if row.file is None else str(row.file),
            }
            for row in rows
            if row.attack != "none"
        ],
    }
