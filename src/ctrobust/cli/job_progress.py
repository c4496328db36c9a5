"""Progress of jobs: a display that moves on a terminal, else a line from time to time."""

import contextlib
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from rich.live import Live
from rich.text import Text

from ctrobust.cli.console import messages

if TYPE_CHECKING:
    from ctrobust.execution import ExecutionProgress

SECONDS_BETWEEN_JOB_LINES = 10


@contextlib.contextmanager
def job_progress() -> Iterator[Callable[["ExecutionProgress"], None]]:
    """Show how many jobs have ended, the remaining time and what each worker does."""
    if messages.is_terminal:
        with Live(console=messages, refresh_per_second=4, transient=True) as live:
            yield lambda progress: live.update(_display(progress))
        return
    printed, ended = 0.0, -1

    def report(progress: "ExecutionProgress") -> None:
        nonlocal printed, ended
        now = time.monotonic()
        finished = progress.ended == progress.total and progress.ended != ended
        if not finished and (now - printed < SECONDS_BETWEEN_JOB_LINES or not progress.running):
            return
        printed, ended = now, progress.ended
        running = "; ".join(f"{name}: {activity}" for name, activity in _activities(progress) if activity != "waits")
        messages.print(f"{_summary(progress)}{f'. {running}' if running else ''}", markup=False, soft_wrap=True)

    yield report


def _display(progress: "ExecutionProgress") -> Text:
    lines = [_summary(progress), *(f"  {name}: {activity}" for name, activity in _activities(progress))]
    return Text("\n".join(lines), no_wrap=True, overflow="ellipsis")


def _summary(progress: "ExecutionProgress") -> str:
    """One line of numbers."""
    pieces = [f"{progress.ended:,} of {progress.total:,} jobs"]
    if progress.report.failed:
        pieces.append(f"{len(progress.report.failed):,} failed")
    if progress.elsewhere:
        pieces.append(f"{progress.elsewhere:,} run by another process")
    if progress.ended < progress.total:
        seconds, least = progress.seconds_left(), "more than " if progress.unmeasured else ""
        pieces.append("ETA not known yet" if seconds is None else f"ETA {least}{_clock(seconds)}")
    return ", ".join(pieces)


def _activities(progress: "ExecutionProgress") -> list[tuple[str, str]]:
    from ctrobust.execution.planning import describe_job

    now = time.monotonic()
    return [
        (one.name, "waits" if one.job is None else f"{_clock(now - one.started_at)}, {describe_job(one.job)}")
        for one in progress.workers
    ]


def _clock(seconds: float) -> str:
    """Hours, minutes and seconds.

    Example:
        >>> _clock(3725.4)
        '1:02:05'
    """
    return str(timedelta(seconds=round(max(0.0, seconds))))
