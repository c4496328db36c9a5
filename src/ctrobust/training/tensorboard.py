"""TensorBoard as a watcher, where it is installed: pip install 'ctrobust[tensorboard]'."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ctrobust.errors import InputError
from ctrobust.training.loop import TrainingCallback


class _TensorBoard:
    """Tells another watcher, and writes the metrics of each epoch."""

    def __init__(self, inner: TrainingCallback, make: Callable[[], Any]) -> None:
        self.inner, self.make = inner, make
        self.writer: Any = None

    def step(self, done: int, total: int, epoch: int, loss: float) -> None:
        """Pass on."""
        self.inner.step(done, total, epoch, loss)

    def epoch(self, metrics: dict[str, Any]) -> None:
        """Write the epoch's scalars; there is nothing before the first of them."""
        self.writer = self.writer or self.make()
        for name, value in metrics.items():
            if name not in ("epoch", "step"):
                self.writer.add_scalar(name, float(value), global_step=metrics["step"])
        self.writer.flush()
        self.inner.epoch(metrics)


def with_tensorboard(inner: TrainingCallback, folder: Path) -> TrainingCallback:
    """A watcher that also writes event files into `folder`."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError("TensorBoard is not installed: pip install 'ctrobust[tensorboard]'") from None
    return _TensorBoard(inner, lambda: SummaryWriter(str(folder)))
