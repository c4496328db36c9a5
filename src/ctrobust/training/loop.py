"""The training loop: epochs, batches, checkpoints and metrics. The losses are the recipe's."""

import contextlib
import math
import time
from collections.abc import Callable
from pathlib import Path

import torch
from lightning_fabric import Fabric

from ctrobust import data
from ctrobust.data import Dataset
from ctrobust.errors import InputError
from ctrobust.regularizers import clear_step
from ctrobust.specs import TrainSpec
from ctrobust.store import RunDirectory, RunRecord
from ctrobust.training import checkpoint
from ctrobust.training.devices import Devices, launch
from ctrobust.training.divergence import DivergedError, explain_divergence, find_divergence, largest_loss
from ctrobust.training.environment import append_environment, environment
from ctrobust.training.epoch_metrics import measure, update_best
from ctrobust.training.record import evaluate_result, make_record
from ctrobust.training.run_lock import is_finished, open_run, resume_from_checkpoint
from ctrobust.training.training_callback import CheckpointPolicy, NoCallback, TrainingCallback, TrainingInterrupted
from ctrobust.training.training_state import TrainingState
from ctrobust.training.validation_split import check_validation_count


def train(
    spec: TrainSpec,
    run: RunDirectory,
    *,
    data_root: Path | None = None,
    resume: bool = False,
    callback: TrainingCallback | None = None,
    checkpointing: CheckpointPolicy | None = None,
    devices: Devices | None = None,
    factory: str | None = None,
) -> RunRecord:
    """Train a spec, from the start or from the last checkpoint, and return the record.

    A spec whose network is built by a factory of the user needs that `factory` again, also to resume: no file chooses
    which code is run.

    Raises:
        InputError: an argument has the wrong type, or the data do not fit the spec.
        RunError: the directory holds another run, or this run without `resume`, or cannot be written.
        DivergedError: the loss or the weights exploded or are not finite; the state before is kept.
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
    return launch(fabric, _train, spec, run, train_set, test_set, resume, callback, checkpointing, factory)


def _train(
    fabric: Fabric,
    spec: TrainSpec,
    run: RunDirectory,
    train_set: Dataset,
    test_set: Dataset,
    resume: bool,
    callback: TrainingCallback,
    checkpointing: CheckpointPolicy,
    factory: str | None = None,
) -> RunRecord:
    """Train in one process of the run; only the process with rank 0 writes files."""
    main = fabric.is_global_zero
    state = TrainingState.begin(spec, train_set, fabric, factory)
    with contextlib.ExitStack() as stack:
        opened = open_run(stack, fabric, run, spec, resume=resume)
        if opened.has_checkpoint:
            resume_from_checkpoint(state, run)
        if main:
            run.truncate_metrics(last_epoch=state.progress.epoch)
            state.progress.environments = append_environment(state.progress.environments, environment())
        record: RunRecord | None = None
        try:
            while state.progress.epoch < spec.epochs and state.progress.returned_to is None:
                _Epoch(state, run, callback, checkpointing, opened.check).run_batches()
            outcome = evaluate_result(state, test_set) if main else None
        except DivergedError as error:
            opened.check()
            raise explain_divergence(error, state, run) from None
        finally:
            clear_step(state.model)
        if outcome is not None:
            opened.check()
            state.save_weights(run.model_file)
            record = make_record(state, run, test_set, outcome)
            run.write_record(record)
            run.divergence_file.unlink(missing_ok=True)
        record = fabric.broadcast(record)
        assert record is not None
        return record


class _Epoch:
    """One epoch, or the rest of one that a checkpoint was saved in."""

    def __init__(
        self,
        state: TrainingState,
        run: RunDirectory,
        callback: TrainingCallback,
        checkpointing: CheckpointPolicy,
        check_lock: Callable[[], None] = lambda: None,
    ) -> None:
        self.state, self.run, self.callback, self.checkpointing = state, run, callback, checkpointing
        self.check_lock = check_lock  # raises if another process may use the directory
        self.earlier_seconds, self.earlier_cpu_seconds = state.progress.seconds[-1], state.progress.cpu_seconds[-1]
        self.started_at, self.cpu_started_at = time.monotonic(), time.process_time()
        self.saved_at = self.reported_at = self.asked_at = self.started_at
        self.saved_batch = state.progress.batch  # that of the last checkpoint; 0 is the end of an epoch
        # The sum of this process's losses, on its device: reading it makes the host wait for a GPU. The sum that a
        # checkpoint holds is continued by rank 0 alone.
        device = state.fabric.device
        dtype = torch.float32 if device.type == "mps" else torch.float64  # MPS has no float64
        earlier_sum = state.progress.loss_sum if state.processes.first else 0.0
        self.loss_sum = torch.tensor(earlier_sum, dtype=dtype, device=device)
        self.batch_loss = torch.zeros((), device=device)  # that of the last batch, a sum over this process's share
        self.largest_batch_loss = largest_loss(state.spec, state.train.num_classes) * state.spec.batch_size

    def run_batches(self) -> None:
        """Train on each batch, report progress, save checkpoints, and stop if requested or if training diverges."""
        state, spec, progress = self.state, self.state.spec, self.state.progress
        state.wrapped.train()
        for index in data.epoch_batches(state.order(), spec.batch_size, start=progress.batch):
            self.batch_loss = state.train_batch(index)
            self.loss_sum += self.batch_loss
            progress.batch += 1
            stop, checkpoint_due = self.poll()
            if state.processes.first:
                self.report_progress()
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
            self.callback.step(done, total, progress.epoch, float(self.loss_sum) / seen)

    def poll(self) -> tuple[bool, bool]:
        """Whether any process was asked to stop, and whether rank 0 is due to save: all processes do the same.

        Raises a DivergedError in all processes if the loss of a batch has exploded in one.
        """
        processes = self.state.processes
        stop, exploded = self.checkpointing.stop(), self.loss_exploded()
        due = processes.first and time.monotonic() - self.saved_at >= self.checkpointing.seconds
        if processes.count > 1:
            flags = torch.tensor([int(stop), int(due), int(exploded)])
            stop, due, exploded = (count > 0 for count in processes.sum(flags).tolist())
        if exploded:
            raise DivergedError(f"the loss is {self.mean_batch_loss():.3g}")
        return stop, due

    def loss_exploded(self) -> bool:
        """Whether the loss of the last batch is too large or not finite.

        The CPU knows it after each batch; another device is asked ten times a second, because the host waits for it.
        """
        if self.batch_loss.device.type != "cpu":
            now = time.monotonic()
            if now - self.asked_at < 0.1:
                return False
            self.asked_at = now
        return not abs(float(self.batch_loss)) <= self.largest_batch_loss

    def mean_batch_loss(self) -> float:
        """The mean loss of the last batch, of rank 0's share if there are several processes."""
        return float(self.batch_loss) * self.state.fabric.world_size / self.state.spec.batch_size

    def elapsed(self) -> tuple[float, float | None]:
        """Wall seconds of this epoch and CPU seconds of this process, each with those before the run was resumed."""
        cpu = None if self.earlier_cpu_seconds is None else self.earlier_cpu_seconds - self.cpu_started_at
        return (
            self.earlier_seconds - self.started_at + time.monotonic(),
            None if cpu is None else cpu + time.process_time(),
        )

    def check_state(self) -> None:
        """Raise a DivergedError in all processes if the state must not be saved."""
        processes = self.state.processes
        problem = find_divergence(self.state)
        if int(processes.sum(torch.tensor(int(problem is not None)))) > 0:
            raise DivergedError(problem or "the weights exploded in another process")

    def sum_losses(self) -> float:
        """The sum of the losses of all processes in this epoch; raises a DivergedError if it is not finite."""
        loss = float(self.state.processes.sum(self.loss_sum))
        if not math.isfinite(loss):
            raise DivergedError(f"the loss is {loss}")
        return loss

    def save(self, *, checked: bool = False) -> None:
        """Write a checkpoint with the sum of the losses of all processes; a diverged state is never written.

        The one before is kept too. Inside an epoch that is the one from which the epoch started.
        """
        if not checked:
            self.check_state()
        state, progress = self.state, self.state.progress
        keep = progress.epoch == 0 or progress.batch == 0 or self.saved_batch == 0
        self.saved_batch = progress.batch
        self.saved_at = time.monotonic()
        progress.loss_sum = self.sum_losses()
        progress.seconds[-1], progress.cpu_seconds[-1] = self.elapsed()
        self.check_lock()
        checkpoint.save_checkpoint(
            self.run.checkpoint_file, state.spec, progress, state.model, state.optimizer, state.recipe,
            state.copies, write=state.processes.first, keep_as=self.run.previous_checkpoint_file if keep else None,
        )  # fmt: skip

    def finish(self) -> bool:
        """Write the epoch's metrics, then the checkpoint from which the next epoch starts; return whether it evaluated.

        The times do not include the evaluation.
        """
        state, progress = self.state, self.state.progress
        loss = self.sum_losses() / len(state.train)
        seconds, cpu_seconds = self.elapsed()
        self.check_state()
        measured = state.fabric.broadcast(measure(state) if state.processes.first else {})
        self.check_lock()
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
        self.save(checked=True)
        return bool(measured)
