"""A training callback that writes TensorBoard event files; needs pip install 'ctrobust[tensorboard]'."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ctrobust.errors import InputError
from ctrobust.training.training_callback import TrainingCallback


class _TensorBoard:
    """Write the metrics of each epoch, and call another callback."""

    def __init__(self, callback: TrainingCallback, make_writer: Callable[[], Any]) -> None:
        self.callback, self.make_writer = callback, make_writer
        self.writer: Any = None

    def step(self, done: int, total: int, epoch: int, loss: float) -> None:
        self.callback.step(done, total, epoch, loss)

    def epoch(self, metrics: dict[str, Any]) -> None:
        self.writer = self.writer or self.make_writer()  # not earlier: the run may be refused
        for name, value in metrics.items():
            if name not in ("epoch", "step"):
                self.writer.add_scalar(name, float(value), global_step=metrics["step"])
        self.writer.flush()
        self.callback.epoch(metrics)


def with_tensorboard(callback: TrainingCallback, folder: Path) -> TrainingCallback:
    """Extend a callback so that it also writes event files into `folder`."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError("TensorBoard is not installed: pip install 'ctrobust[tensorboard]'") from None
    return _TensorBoard(callback, lambda: SummaryWriter(str(folder)))
