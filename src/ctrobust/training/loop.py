"""The training loop: it owns the order of the data and the checkpoints, and knows no loss."""

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
from ctrobust.store import RunDirectory
from ctrobust.training import checkpoint
from ctrobust.training.devices import Devices, launch
from ctrobust.training.environment import environment, joined
from ctrobust.training.epoch_metrics import measure, update_best
from ctrobust.training.record import make_record
from ctrobust.training.run_lock import finished, open_run, resume_from_checkpoint
from ctrobust.training.training_state import TrainingState
from ctrobust.training.validation_split import check_left


class TrainingInterrupted(CtrobustError):  # noqa: N818 - not an error
    """The user asked to stop; the state is saved."""

    exit_code = 130


class TrainingCallback(Protocol):
    """Who is told how a run goes."""

    def step(self, done: int, total: int, epoch: int, loss: float) -> None:
        """After batches: how many of all are done, in which epoch, and the epoch's mean loss so far."""
        ...

    def epoch(self, metrics: dict[str, Any]) -> None:
        """After an epoch: what was written to metrics.jsonl."""
        ...


class NoCallback:
    """Tells nobody."""

    def step(self, done: int, total: int, epoch: int, loss: float) -> None:
        """Nothing."""

    def epoch(self, metrics: dict[str, Any]) -> None:
        """Nothing."""


@dataclass(frozen=True)
class CheckpointPolicy:
    """When a checkpoint is written besides the end of each epoch, and what may end the run.

    Attributes:
        seconds: at most so many pass between two checkpoints.
        stop: asked after each batch; True saves the state and raises Interrupted.
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
) -> dict[str, Any]:
    """Train as the spec says, from the start or from the last checkpoint, and give the record.

    Raises:
        InputError: `spec` and `run` are something else.
        RunError: the directory holds a run and `resume` was not asked for, or it cannot be written.
        Interrupted: `saving.stop` said so; the state is saved.
    """
    if not (isinstance(spec, TrainSpec) and isinstance(run, RunDirectory)):
        raise InputError(
            "train takes a TrainSpec, as ctrobust.specs.train_spec makes of a dict, and a ctrobust.store.RunDirectory; "
            f"got {type(spec).__name__} and {type(run).__name__}"
        )
    if resume and finished(run, spec):
        return run.read_record()  # which needs no data
    fabric = (devices or Devices()).fabric(spec)
    train_set = data.load(spec.data, "train", data_root).take(spec.limit)
    test_set = data.load(spec.data, "test", data_root)
    check_left(train_set, spec.validation)  # before anything is written
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
) -> dict[str, Any]:
    """What each process does; only the first writes."""
    main = fabric.is_global_zero
    state = TrainingState.begin(spec, train_set, fabric)
    with contextlib.ExitStack() as held:
        refusal: CtrobustError | None = fabric.broadcast(open_run(held, run, spec, resume=resume) if main else None)
        if refusal is not None:
            raise refusal
        if run.checkpoint_file.exists():
            resume_from_checkpoint(state, run)
        if main:
            run.keep_metrics(up_to_epoch=state.progress.epoch)
            state.progress.environments = joined(state.progress.environments, environment())
        try:
            while state.progress.epoch < spec.epochs and state.progress.returned_to is None:
                _Epoch(state, run, callback, checkpointing).run_batches()
        finally:
            clear_step(state.model)
        if main:
            record = make_record(state, test_set)
            state.save_weights(run.model_file)
            run.write_record(record)
        fabric.barrier()
        return run.read_record()


class _Epoch:
    """One pass through the data, or through what is left of it."""

    def __init__(
        self, state: TrainingState, run: RunDirectory, callback: TrainingCallback, checkpointing: CheckpointPolicy
    ) -> None:
        self.state, self.run, self.callback, self.checkpointing = state, run, callback, checkpointing
        self.before, self.begun = state.progress.seconds[-1], time.monotonic()
        self.saved = self.told = self.begun
        # the sum of this process's losses; what was summed before a kill is with the first
        self.total = torch.tensor(state.progress.loss_sum if state.processes.first else 0.0, dtype=torch.float64)

    def run_batches(self) -> None:
        """Descend each batch, tell, save, and stop where asked."""
        state, spec, progress = self.state, self.state.spec, self.state.progress
        state.wrapped.train()
        for index in data.epoch_batches(state.order(), spec.batch_size, start=progress.batch):
            self.total += state.batch(index).to(self.total.device)
            progress.batch += 1
            if state.processes.first:
                self.report_progress()
            stop, due = self.poll()
            if stop or due:
                self.save()
            if stop:
                self.stop()
        if state.held is not None:
            self.save()  # to measure may take long
        state.recipe.end_epoch()
        measured = self.end()
        if measured and self.poll()[0]:  # asked for meanwhile
            self.stop()

    def stop(self) -> None:
        """End here, with all saved."""
        raise TrainingInterrupted(f"stopped at step {self.state.progress.step}; the state is saved in {self.run.path}")

    def report_progress(self) -> None:
        """Let the watcher know, ten times a second at most; of many processes the first one does, of its part."""
        state, progress = self.state, self.state.progress
        now = time.monotonic()
        if now - self.told >= 0.1 or progress.batch == state.batches:
            self.told = now
            seen = min(progress.batch * state.spec.batch_size, len(state.train)) / state.fabric.world_size
            done, total = progress.epoch * state.batches + progress.batch, state.spec.epochs * state.batches
            self.callback.step(done, total, progress.epoch, _finite(float(self.total), progress.step) / seen)

    def poll(self) -> tuple[bool, bool]:
        """Whether any process wants to stop, and whether the first wants a checkpoint: all do the same."""
        due = self.state.processes.first and time.monotonic() - self.saved >= self.checkpointing.seconds
        stop, save = self.state.processes.sum(torch.tensor([int(self.checkpointing.stop()), int(due)])).tolist()
        return bool(stop), bool(save)

    def save(self) -> None:
        """Write a checkpoint; the processes' sums become one."""
        state, progress = self.state, self.state.progress
        self.saved = time.monotonic()
        progress.loss_sum = _finite(float(state.processes.sum(self.total)), progress.step)
        progress.seconds[-1] = self.before + self.saved - self.begun
        checkpoint.save_checkpoint(
            self.run.checkpoint_file, spec_hash(state.spec), progress, state.model, state.optimizer, state.recipe,
            state.copies, write=state.processes.first,
        )  # fmt: skip

    def end(self) -> bool:
        """Close the epoch: its metrics, then a checkpoint at the start of the next; whether anything was measured."""
        state, progress = self.state, self.state.progress
        loss = _finite(float(state.processes.sum(self.total)), progress.step) / len(state.train)
        seconds = self.before + time.monotonic() - self.begun
        found = state.fabric.broadcast(measure(state) if state.processes.first else {})
        update_best(state, self.run, found)
        metrics = {
            "epoch": progress.epoch + 1,
            "step": progress.step,
            "loss": loss,
            "lr": state.rate(progress.step - 1),
            "seconds": round(seconds, 3),
            **found,
        }
        if state.processes.first:
            self.run.add_metrics(metrics)
            self.callback.epoch(metrics)
        self.total.zero_()
        self.before, self.begun = 0.0, time.monotonic()
        progress.epoch, progress.batch = progress.epoch + 1, 0
        progress.seconds[-1:] = [seconds, 0.0]
        self.save()
        return bool(found)


def _finite(value: float, step: int) -> float:
    """Refuse a loss that has run away, before it is saved."""
    if not abs(value) < float("inf"):
        raise RunError(f"the loss is {value} at step {step}: training diverged; a smaller lr may help")
    return value
