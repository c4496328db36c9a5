"""The training loop: epochs, batches, checkpoints and metrics. The losses are the recipe's."""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from lightning_fabric import Fabric

from ctrobust import data
from ctrobust.data import Dataset
from ctrobust.errors import CtrobustError, InputError, RunError
from ctrobust.regularizers import clear_step
from ctrobust.specs import TrainSpec, spec_hash
from ctrobust.store import RunDirectory, RunRecord
from ctrobust.training import checkpoint
from ctrobust.training.devices import Devices, launch
from ctrobust.training.environment import append_environment, environment
from ctrobust.training.epoch_metrics import measure, update_best
from ctrobust.training.record import evaluate_result, make_record
from ctrobust.training.run_lock import is_finished, open_run, resume_from_checkpoint
from ctrobust.training.training_state import TrainingState
from ctrobust.training.validation_split import check_validation_count


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


def train(
    spec: TrainSpec,
    run: RunDirectory,
    *,
    data_root: Path | None = None,
    resume: bool = False,
    callback: TrainingCallback | None = None,
    checkpointing: CheckpointPolicy | None = None,
    devices: Devices | None = None,
) -> RunRecord:
    """Train a spec, from the start or from the last checkpoint, and return the record.

    Raises:
        InputError: an argument has the wrong type, or the data do not fit the spec.
        RunError: the directory holds another run, or this run without `resume`, or cannot be written, or training
            diverged.
        TrainingInterrupted: `checkpointing.stop` returned True; the state is saved.
    """
    if not (isinstance(spec, TrainSpec) and isinstance(run, RunDirectory)):
        raise InputError(
            "train takes a TrainSpec, as ctrobust.specs.train_spec makes of a dict, and a ctrobust.store.RunDirectory; "
            f"got {type(spec).__name__} and {type(run).__name__}"
        )
    if resume and is_finished(run, spec):
        return run.read_record()  # without loading the data
    fabric = (devices or Devices()).fabric(spec)
    train_set = data.load(spec.data, "train", data_root).take(spec.limit)
    test_set = data.load(spec.data, "test", data_root)
    check_validation_count(train_set, spec.validation)  # before anything is written
    callback, checkpointing = callback or NoCallback(), checkpointing or CheckpointPolicy()
    return launch(fabric, _train, spec, run, train_set, test_set, resume, callback, checkpointing)


def _train(
    fabric: Fabric,
    spec: TrainSpec,
    run: RunDirectory,
    train_set: Dataset,
    test_set: Dataset,
    resume: bool,
    callback: TrainingCallback,
    checkpointing: CheckpointPolicy,
) -> RunRecord:
    """Train in one process of the run; only the process with rank 0 writes files."""
    main = fabric.is_global_zero
    state = TrainingState.begin(spec, train_set, fabric)
    with contextlib.ExitStack() as stack:
        if open_run(stack, fabric, run, spec, resume=resume):
            resume_from_checkpoint(state, run)
        if main:
            run.truncate_metrics(last_epoch=state.progress.epoch)
            state.progress.environments = append_environment(state.progress.environments, environment())
        try:
            while state.progress.epoch < spec.epochs and state.progress.returned_to is None:
                _Epoch(state, run, callback, checkpointing).run_batches()
        finally:
            clear_step(state.model)
        record: RunRecord | None = None
        if main:
            outcome = evaluate_result(state, test_set)  # raises if the run diverged, before weights are written
            state.save_weights(run.model_file)
            record = make_record(state, run, test_set, outcome)
            run.write_record(record)
        record = fabric.broadcast(record)
        assert record is not None
        return record


class _Epoch:
    """One epoch, or the rest of one that a checkpoint was saved in."""

    def __init__(
        self, state: TrainingState, run: RunDirectory, callback: TrainingCallback, checkpointing: CheckpointPolicy
    ) -> None:
        self.state, self.run, self.callback, self.checkpointing = state, run, callback, checkpointing
        self.earlier_seconds, self.earlier_cpu_seconds = state.progress.seconds[-1], state.progress.cpu_seconds[-1]
        self.started_at, self.cpu_started_at = time.monotonic(), time.process_time()
        self.saved_at = self.reported_at = self.started_at
        # The sum of this process's losses, on its device: reading it makes the host wait for a GPU. The sum that a
        # checkpoint holds is continued by rank 0 alone.
        device = state.fabric.device
        dtype = torch.float32 if device.type == "mps" else torch.float64  # MPS has no float64
        earlier_sum = state.progress.loss_sum if state.processes.first else 0.0
        self.loss_sum = torch.tensor(earlier_sum, dtype=dtype, device=device)

    def run_batches(self) -> None:
        """Train on each batch, report progress, save checkpoints, and stop if requested."""
        state, spec, progress = self.state, self.state.spec, self.state.progress
        state.wrapped.train()
        for index in data.epoch_batches(state.order(), spec.batch_size, start=progress.batch):
            self.loss_sum += state.train_batch(index)
            progress.batch += 1
            if state.processes.first:
                self.report_progress()
            stop, checkpoint_due = self.poll()
            if stop or checkpoint_due:
                self.save()
            if stop:
                self.interrupt()
        if state.validation_set is not None:
            self.save()  # because the evaluation may take long
        state.recipe.end_epoch()
        evaluated = self.finish()
        if evaluated and self.poll()[0]:  # a stop requested during the evaluation
            self.interrupt()

    def interrupt(self) -> None:
        raise TrainingInterrupted(f"stopped at step {self.state.progress.step}; the state is saved in {self.run.path}")

    def report_progress(self) -> None:
        """Call the callback at most ten times a second, with the mean loss of rank 0's share of the examples."""
        state, progress = self.state, self.state.progress
        now = time.monotonic()
        if now - self.reported_at >= 0.1 or progress.batch == state.batches:
            self.reported_at = now
            seen = min(progress.batch * state.spec.batch_size, len(state.train)) / state.fabric.world_size
            done, total = progress.epoch * state.batches + progress.batch, state.spec.epochs * state.batches
            loss = _check_finite(float(self.loss_sum), progress.step) / seen
            self.callback.step(done, total, progress.epoch, loss)

    def poll(self) -> tuple[bool, bool]:
        """Whether any process was asked to stop, and whether rank 0 is due to save: all processes do the same."""
        processes = self.state.processes
        stop = self.checkpointing.stop()
        due = processes.first and time.monotonic() - self.saved_at >= self.checkpointing.seconds
        if processes.count > 1:
            stop, due = (count > 0 for count in processes.sum(torch.tensor([int(stop), int(due)])).tolist())
        return stop, due

    def elapsed(self) -> tuple[float, float | None]:
        """Wall seconds of this epoch and CPU seconds of this process, each with those before the run was resumed."""
        cpu = None if self.earlier_cpu_seconds is None else self.earlier_cpu_seconds - self.cpu_started_at
        return (
            self.earlier_seconds - self.started_at + time.monotonic(),
            None if cpu is None else cpu + time.process_time(),
        )

    def save(self) -> None:
        """Write a checkpoint with the sum of the losses of all processes."""
        state, progress = self.state, self.state.progress
        self.saved_at = time.monotonic()
        progress.loss_sum = _check_finite(float(state.processes.sum(self.loss_sum)), progress.step)
        progress.seconds[-1], progress.cpu_seconds[-1] = self.elapsed()
        checkpoint.save_checkpoint(
            self.run.checkpoint_file, spec_hash(state.spec), progress, state.model, state.optimizer, state.recipe,
            state.copies, write=state.processes.first,
        )  # fmt: skip

    def finish(self) -> bool:
        """Write the epoch's metrics, then the checkpoint from which the next epoch starts; return whether it evaluated.

        The times do not include the evaluation.
        """
        state, progress = self.state, self.state.progress
        loss = _check_finite(float(state.processes.sum(self.loss_sum)), progress.step) / len(state.train)
        seconds, cpu_seconds = self.elapsed()
        measured = state.fabric.broadcast(measure(state) if state.processes.first else {})
        update_best(state, self.run, measured)
        metrics = {
            "epoch": progress.epoch + 1,
            "step": progress.step,
            "loss": loss,
            "lr": state.rate(progress.step - 1),
            "seconds": round(seconds, 3),
            **({} if cpu_seconds is None else {"cpu_seconds": round(cpu_seconds, 3)}),
            **measured,
        }
        if state.processes.first:
            self.run.add_metrics(metrics)
            self.callback.epoch(metrics)
        progress.epoch, progress.batch = progress.epoch + 1, 0
        progress.seconds[-1:] = [seconds, 0.0]
        progress.cpu_seconds[-1:] = [cpu_seconds, 0.0]
        self.loss_sum.zero_()
        self.earlier_seconds, self.earlier_cpu_seconds = 0.0, 0.0
        self.started_at, self.cpu_started_at = time.monotonic(), time.process_time()
        self.save()
        return bool(measured)


def _check_finite(loss: float, step: int) -> float:
    """Raise if the loss has diverged, before it is saved."""
    if not abs(loss) < float("inf"):
        raise RunError(f"the loss is {loss} at step {step}: training diverged; a smaller lr may help")
    return loss
