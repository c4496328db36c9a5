"""What tests of runs share."""

from collections.abc import Callable
from typing import Any

from ctrobust.store import RunDirectory


def after(batches: int) -> Callable[[], bool]:
    """A stop that says so after as many batches."""
    left = iter([False] * (batches - 1) + [True])
    return lambda: next(left)


def metrics(run: RunDirectory) -> list[dict[str, Any]]:
    """The metrics without the seconds, which no run repeats."""
    return [{key: value for key, value in line.items() if key != "seconds"} for line in run.read_metrics()]
