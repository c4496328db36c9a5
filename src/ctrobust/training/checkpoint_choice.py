"""Which of the two checkpoints of a run to resume from: the last one, or the one before if the last is damaged."""

import os
import warnings
from pathlib import Path

from ctrobust.errors import RunError
from ctrobust.models.tensor_files import DamagedFileError
from ctrobust.specs import TrainSpec
from ctrobust.store import RunDirectory
from ctrobust.store.atomic import set_aside
from ctrobust.training.checkpoint import Checkpoint


def choose_checkpoint(run: RunDirectory, spec: TrainSpec) -> bool:
    """Make `last.safetensors` the checkpoint to resume from, and return whether there is one.

    A damaged one is set aside and the one before takes its place, which is warned of: the run is trained again from
    there, to the same bits. The one before takes its place too if the last one is after a change of the rate.
    """
    last, previous = run.checkpoint_file, run.previous_checkpoint_file
    problem = f"{last} is missing"
    if last.exists():
        try:
            found = Checkpoint.read(last)
        except DamagedFileError as error:
            problem = str(error)
        else:
            if found.is_state_of(spec) or not _precedes_change(spec, previous):
                _warn_if_unverified(found)
                return True
            os.replace(previous, last)
            return True
    if not previous.exists():
        if last.exists():
            raise RunError(f"{problem}; there is no checkpoint before it: remove it to start again")
        return False
    try:
        progress = Checkpoint.read(previous).progress
    except DamagedFileError as error:
        raise RunError(f"{problem}, and {error}; remove both to start again") from None
    if last.exists():
        problem = f"{problem} (kept as {set_aside(last).name})"
    os.replace(previous, last)
    warnings.warn(
        f"{problem}: the run continues from the checkpoint before, which has {progress.epoch} finished epochs and "
        f"{progress.batch} batches",
        stacklevel=2,
    )
    return True


def _precedes_change(spec: TrainSpec, previous: Path) -> bool:
    try:
        return previous.exists() and Checkpoint.read(previous).is_state_of(spec)
    except DamagedFileError:
        return False


def _warn_if_unverified(found: Checkpoint) -> None:
    if not found.verified:
        warnings.warn(
            f"{found.path} has no checksum, because an earlier version wrote it: a changed bit in it would not be "
            "noticed",
            stacklevel=3,
        )
