"""What the caller of a run sees of it and decides: its progress, its checkpoints, and when it stops."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ctrobust.errors import CtrobustError


class TrainingInterrupted(CtrobustError):  # noqa: N818 - not an error
    """Training was stopped by the user; the state is saved."""

    exit_code = 130


class TrainingCallback(Protocol):
    """Receives the progress of a run."""

    def step(self, done: int, total: int, epoch: int, loss: float) -> None:
        """Called at most ten times a second: batches done of the total, the epoch, and its mean loss so far."""
        ...

    def epoch(self, metrics: dict[str, Any]) -> None:
        """Called after an epoch with the line of metrics.jsonl."""
        ...


class NoCallback:
    """A callback that does nothing."""

    def step(self, done: int, total: int, epoch: int, loss: float) -> None:
        pass

    def epoch(self, metrics: dict[str, Any]) -> None:
        pass


@dataclass(frozen=True)
class CheckpointPolicy:
    """When checkpoints are written besides the end of each epoch, and when to stop.

    Attributes:
        seconds: the longest time between two checkpoints, up to the length of a batch.
        stop: called after each batch; if it returns True, the state is saved and TrainingInterrupted is raised.
    """

    seconds: float = 60.0
    stop: Callable[[], bool] = lambda: False
