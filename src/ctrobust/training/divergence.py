"""Training that diverges: it stops with the batch, keeps the last good state, and may continue with another rate.

The learning rate is part of the spec, and so is each change of it: `lr_changes`. A run that continues with another rate
has the spec of a run that has that change from the beginning, and a fresh run of that spec gives the same bits.
"""

import math

import torch

from ctrobust.errors import RunError
from ctrobust.losses import cross_entropy
from ctrobust.models.tensor_files import DamagedFileError
from ctrobust.regularizers import set_step
from ctrobust.specs import TrainSpec, differences
from ctrobust.store import RunDirectory
from ctrobust.training.checkpoint import Checkpoint
from ctrobust.training.devices import UnwrappedModel
from ctrobust.training.training_state import TrainingState

EXPLODED = 1e4
"""A mean cross-entropy of more than this times ln C, the loss of guessing, is an explosion."""


class DivergedError(RunError):
    """The loss or the weights are not finite, or have exploded; the message says which."""


def largest_loss(spec: TrainSpec, classes: int) -> float:
    """The mean loss of a recipe above which training has diverged.

    That is EXPLODED times the loss of guessing, with the largest factor of SCE and SKL, exp(gamma / sqrt(C - 1)), and
    with the weight of the robust term.
    """
    fields = spec.recipe.model_dump()
    scale = math.exp(float(fields.get("gamma", 0)) / math.sqrt(max(1, classes - 1)))
    return EXPLODED * math.log(classes) * scale * (1 + float(fields.get("beta", 0)))


@torch.no_grad()
def find_divergence(state: TrainingState) -> str | None:
    """Describe a state that must not be saved: it is not finite, or its loss on a batch of this epoch has exploded.

    The loss is the cross-entropy in training mode; BatchNorm's statistics are restored afterwards.
    """
    values = [*state.model.state_dict().values(), *(one for copy in state.copies.values() for one in copy.parameters())]
    momenta = [value for entry in state.optimizer.state.values() for value in entry.values()]
    tensors = [one for one in [*values, *momenta] if isinstance(one, torch.Tensor) and one.is_floating_point()]
    if not torch.stack([one.isfinite().all() for one in tensors]).all():
        return "a weight is not finite"
    loss = _loss_of_first_batch(state)
    if not loss <= EXPLODED * math.log(state.train.num_classes):
        return f"the loss of the new weights is {loss:.3g}"
    return None


def _loss_of_first_batch(state: TrainingState) -> float:
    spec, progress, model = state.spec, state.progress, state.model
    index = state.order()[: spec.batch_size][state.fabric.global_rank :: state.fabric.world_size]
    x, y = state.images(index, progress.epoch * state.batches * state.replays)
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    training = model.training
    set_step(model, seed=spec.seed, step=progress.step, keys=state.fabric.to_device(index), progress=0.0)
    with state.network_draws():
        logits = UnwrappedModel(model.train(), state.fabric)(x)
    model.train(training)
    for name, buffer in model.named_buffers():
        buffer.copy_(buffers[name])
    return float(cross_entropy(logits, y).mean())


def explain_divergence(error: DivergedError, state: TrainingState, run: RunDirectory) -> DivergedError:
    """Record that the run diverged, and say where, with which rate, and what to try."""
    progress = state.progress
    rate = state.rate(max(progress.step - 1, 0))
    epoch = min(progress.epoch + 1, state.spec.epochs)
    where = f"at step {progress.step} in epoch {epoch}, with a learning rate of {rate:.3g}"
    smaller = f"--lr {state.peak_rate / 10:.3g}"
    if 0 < progress.epoch < state.spec.epochs:
        advice = (
            f"the state at the end of epoch {progress.epoch} is kept; continue from there with a smaller rate:\n"
            f"  ctrobust train --resume --out {run.path} {smaller}"
        )
    else:
        advice = f"start again with a smaller rate, such as {smaller}, and another --out"
    if state.processes.first and run.checkpoint_file.exists():
        run.write_divergence({"step": progress.step, "epoch": epoch, "lr": rate, "problem": str(error)})
    return DivergedError(f"training diverged {where}: {error}; {advice}")


def with_changed_rate(run: RunDirectory, stored: TrainSpec, requested: TrainSpec) -> TrainSpec:
    """The spec of a run that diverged and continues with the requested rate from its last finished epoch.

    Any other request is returned unchanged, and refused as another run.
    """
    if requested == stored or requested.model_copy(update={"lr": stored.lr}) != stored or not run.has_diverged:
        return requested
    finished = [0]
    for file in (run.checkpoint_file, run.previous_checkpoint_file):
        try:
            found = Checkpoint.read(file) if file.exists() else None
        except DamagedFileError:
            continue  # opening the run reports it
        if found is not None and found.progress.batch == 0 and found.is_state_of(stored):
            finished.append(found.progress.epoch)
    epoch = max(finished)
    if not 0 < epoch < stored.epochs:
        raise RunError(
            f"{run.path} diverged, and no checkpoint at the end of an epoch is there from which it could continue with "
            f"another rate ({differences(stored, requested)}): start a new run with another --out"
        )
    kept = tuple(change for change in stored.lr_changes if change[0] < epoch)
    return stored.model_copy(update={"lr_changes": (*kept, (epoch, requested.lr))})


def is_rate_change(stored: TrainSpec, requested: TrainSpec) -> bool:
    """Whether a spec differs from the stored one only by a new last change of the rate."""
    if not requested.lr_changes or requested.model_copy(update={"lr_changes": stored.lr_changes}) != stored:
        return False
    *kept, (epoch, _) = requested.lr_changes
    return kept == [change for change in stored.lr_changes if change[0] < epoch]
