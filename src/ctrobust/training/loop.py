"""The training loop: it owns the optimizer, the order of the data and the checkpoints, and knows no loss."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from ctrobust import data, draws
from ctrobust.data import Dataset
from ctrobust.errors import CtrobustError, RunError
from ctrobust.evaluation import evaluate
from ctrobust.losses import LOSSES
from ctrobust.models import Classifier
from ctrobust.recipes import RECIPES, Recipe
from ctrobust.regularizers import forget, tell
from ctrobust.specs import TrainSpec, differences, spec_hash
from ctrobust.store import RunDirectory
from ctrobust.training import checkpoint, weights
from ctrobust.training.environment import environment
from ctrobust.training.schedules import learning_rate


class Interrupted(CtrobustError):  # noqa: N818 - not an error
    """The user asked to stop; the state is saved."""

    exit_code = 130


class Watcher(Protocol):
    """Who is told how a run goes."""

    def step(self, done: int, total: int, epoch: int, loss: float) -> None:
        """After batches: how many of all are done, in which epoch, and the epoch's mean loss so far."""
        ...

    def epoch(self, metrics: dict[str, Any]) -> None:
        """After an epoch: what was written to metrics.jsonl."""
        ...


class Silent:
    """Tells nobody."""

    def step(self, done: int, total: int, epoch: int, loss: float) -> None:
        """Nothing."""

    def epoch(self, metrics: dict[str, Any]) -> None:
        """Nothing."""


@dataclass(frozen=True)
class Saving:
    """When a checkpoint is written besides the end of each epoch, and what may end the run.

    Attributes:
        seconds: at most so many pass between two checkpoints.
        stop: asked after each batch; True saves the state and raises Interrupted.
    """

    seconds: float = 60.0
    stop: Callable[[], bool] = lambda: False


def build_recipe(spec: TrainSpec) -> Recipe:
    """The recipe that a spec describes."""
    fields = spec.recipe.model_dump(exclude={"name", "loss"})
    return RECIPES[spec.recipe.name](loss=LOSSES[spec.recipe.loss], **fields)


def build_model(spec: TrainSpec, train: Dataset) -> Classifier:
    """The network with the weights that the seed gives; torch's generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(spec.seed)
        return weights.build(spec.model, train.in_channels, train.num_classes, train.mean, train.std)


def build_optimizer(spec: TrainSpec, model: Classifier) -> torch.optim.SGD:
    """SGD, fused: one pass over the parameters a step."""
    return torch.optim.SGD(
        model.parameters(), lr=spec.lr, momentum=spec.momentum, weight_decay=spec.weight_decay, fused=True
    )


@dataclass
class Run:
    """A run in memory: what the spec describes, and where it is."""

    spec: TrainSpec
    train: Dataset
    model: Classifier
    optimizer: torch.optim.Optimizer
    recipe: Recipe
    progress: checkpoint.Progress

    @classmethod
    def begin(cls, spec: TrainSpec, train: Dataset) -> "Run":
        """At its first step."""
        model = build_model(spec, train)
        return cls(spec, train, model, build_optimizer(spec, model), build_recipe(spec), checkpoint.Progress())

    @property
    def batches(self) -> int:
        """Batches an epoch; the last may be smaller."""
        return -(-len(self.train) // self.spec.batch_size)

    def batch(self, index: torch.Tensor) -> torch.Tensor:
        """Descend the losses of one batch, and give the last, detached."""
        spec, progress = self.spec, self.progress
        x, y = data.gather(self.train, index)
        steps = spec.epochs * self.batches
        tell(self.model, seed=spec.seed, step=progress.step, keys=index, progress=progress.step / steps)
        for loss in self.recipe(self.model, x, y, index):
            rate = learning_rate(spec.schedule, spec.lr, progress.step, steps, progress.epoch, spec.epochs)
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            progress.step += 1
        return loss.detach()


def train(
    spec: TrainSpec,
    run: RunDirectory,
    *,
    data_root: Path | None = None,
    resume: bool = False,
    watcher: Watcher | None = None,
    saving: Saving | None = None,
) -> dict[str, Any]:
    """Train as the spec says, from the start or from the last checkpoint, and give the record.

    Raises:
        RunError: the directory holds a run and `resume` was not asked for, or it cannot be written.
        Interrupted: `saving.stop` said so; the state is saved.
    """
    watcher, saving = watcher or Silent(), saving or Saving()
    train_set = data.load(spec.data, "train", data_root).take(spec.limit)
    test_set = data.load(spec.data, "test", data_root)
    with run.locked():
        state = Run.begin(spec, train_set)
        if not _enter(run, spec, resume=resume):
            return run.read_record()
        if run.checkpoint_file.exists():
            state.progress = checkpoint.restore(
                run.checkpoint_file, spec_hash(spec), state.model, state.optimizer, state.recipe
            )
        run.keep_metrics(up_to_epoch=state.progress.epoch)
        try:
            while state.progress.epoch < spec.epochs:
                _epoch(state, run, watcher, saving)
        finally:
            forget(state.model)
        weights.save(run.model_file, state.model, spec.model, train_set)
        record = _record(state, test_set)
        run.write_record(record)
        return record


def _enter(run: RunDirectory, spec: TrainSpec, *, resume: bool) -> bool:
    """Claim an empty directory for the spec, or check that what is there may go on; False if it is finished."""
    if not run.spec_file.exists():
        run.write_spec(spec)
        return True
    if (stored := run.read_spec()) != spec:
        raise RunError(f"{run.path} holds another run: there and as asked, {differences(stored, spec)}")
    if not resume:
        raise RunError(f"{run.path} holds this run already: add --resume to go on with it, or choose another --out")
    return not run.record_file.exists()


def _epoch(state: Run, run: RunDirectory, watcher: Watcher, saving: Saving) -> None:
    """Go through the data once, or through what is left of it."""
    spec, progress, model = state.spec, state.progress, state.model
    order = draws.permutation(len(state.train), draws.stream(spec.seed, "order", progress.epoch))
    seen = progress.batch * spec.batch_size
    total = torch.tensor(progress.loss_sum, dtype=torch.float64)
    before, begun = progress.seconds[-1], time.monotonic()
    saved = told = begun
    model.train()

    def save() -> None:
        progress.loss_sum = _finite(float(total), progress.step)
        progress.seconds[-1] = before + time.monotonic() - begun
        checkpoint.save(run.checkpoint_file, spec_hash(spec), progress, model, state.optimizer, state.recipe)

    for index in data.epoch_batches(order, spec.batch_size, start=progress.batch):
        total += state.batch(index) * len(index)
        seen += len(index)
        progress.batch += 1
        now = time.monotonic()
        if now - told >= 0.1 or progress.batch == state.batches:
            told = now
            loss = _finite(float(total), progress.step) / seen
            watcher.step(
                progress.epoch * state.batches + progress.batch, spec.epochs * state.batches, progress.epoch, loss
            )
        if saving.stop():
            save()
            raise Interrupted(f"stopped at step {progress.step}; the state is saved in {run.path}")
        if now - saved >= saving.seconds:
            saved = now
            save()

    state.recipe.end_epoch()
    progress.seconds[-1] = before + time.monotonic() - begun
    metrics = {
        "epoch": progress.epoch + 1,
        "step": progress.step,
        "loss": _finite(float(total), progress.step) / len(state.train),
        "lr": state.optimizer.param_groups[0]["lr"],
        "seconds": round(progress.seconds[-1], 3),
    }
    run.add_metrics(metrics)
    watcher.epoch(metrics)
    progress.epoch, progress.batch, progress.loss_sum = progress.epoch + 1, 0, 0.0
    progress.seconds.append(0.0)
    checkpoint.save(run.checkpoint_file, spec_hash(spec), progress, model, state.optimizer, state.recipe)


def _finite(value: float, step: int) -> float:
    """Refuse a loss that has run away, before it is saved."""
    if not abs(value) < float("inf"):
        raise RunError(f"the loss is {value} at step {step}: training diverged; a smaller lr may help")
    return value


def _record(state: Run, test_set: Dataset) -> dict[str, Any]:
    """What the run gave, and on what."""
    outcome = evaluate(state.model.eval(), test_set)
    return {
        "spec": spec_hash(state.spec),
        "data": {
            "name": state.train.name,
            "train": len(state.train),
            "test": len(test_set),
            "verified": state.train.verified and test_set.verified,
        },
        "results": outcome.summary(),
        "steps": state.progress.step,
        "seconds_per_epoch": [round(value, 3) for value in state.progress.seconds[:-1]],
        "environment": environment(),
    }
