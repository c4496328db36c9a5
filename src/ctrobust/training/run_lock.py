"""Open a run directory for training: lock it, and refuse one that holds another run."""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lightning_fabric import Fabric

from ctrobust.errors import CtrobustError, RunError
from ctrobust.models import WeightsFile
from ctrobust.specs import TrainSpec, differences
from ctrobust.store import RunDirectory
from ctrobust.store.directory_lock import DirectoryLock
from ctrobust.training import checkpoint
from ctrobust.training.checkpoint_choice import choose_checkpoint
from ctrobust.training.divergence import is_rate_change
from ctrobust.training.training_state import TrainingState


@dataclass(frozen=True)
class OpenedRun:
    """A run directory that this run holds.

    Attributes:
        has_checkpoint: whether to resume from its checkpoint.
        check: raises a RunError if the directory is no longer the one that was locked; called before each write.
    """

    has_checkpoint: bool
    check: Callable[[], None] = lambda: None


def open_run(
    stack: contextlib.ExitStack, fabric: Fabric, run: RunDirectory, spec: TrainSpec, *, resume: bool
) -> OpenedRun:
    """Lock the directory until `stack` closes, and find out whether to resume from its checkpoint.

    Rank 0 alone looks at the disk; all processes follow its decision, or raise its error.
    """
    error: CtrobustError | None = None
    opened = OpenedRun(has_checkpoint=False)
    if fabric.is_global_zero:
        try:
            opened = _lock(stack, run, spec, resume=resume)
        except CtrobustError as refused:
            error = refused
    error, has_checkpoint = fabric.broadcast((error, opened.has_checkpoint))
    if error is not None:
        raise error
    return opened if fabric.is_global_zero else OpenedRun(has_checkpoint)


def _lock(stack: contextlib.ExitStack, run: RunDirectory, spec: TrainSpec, *, resume: bool) -> OpenedRun:
    lock = stack.enter_context(run.locked())
    if not run.spec_file.exists():
        run.check_free()
        run.write_spec(spec)
        stack.enter_context(_abandon_on_error(run, lock))
        return OpenedRun(False, lock.check)
    stored = run.read_spec()
    changes_rate = resume and run.has_diverged and is_rate_change(stored, spec)
    if not changes_rate:
        _check_same_run(run, stored, spec, resume=resume)
    has_checkpoint = choose_checkpoint(run, spec)
    if changes_rate:
        run.write_spec(spec)
        run.divergence_file.unlink(missing_ok=True)
    if not has_checkpoint:
        warnings.warn(f"{run.path} has no checkpoint: training starts again from the first batch", stacklevel=2)
    return OpenedRun(has_checkpoint, lock.check)


@contextlib.contextmanager
def _abandon_on_error(run: RunDirectory, lock: DirectoryLock) -> Iterator[None]:
    """Free the directory for a corrected run if this one fails before its first checkpoint."""
    try:
        yield
    except CtrobustError:
        if not run.checkpoint_file.exists() and lock.is_held():
            run.clear()
        raise


def resume_from_checkpoint(state: TrainingState, run: RunDirectory) -> None:
    """Load the checkpoint; raise if the training data are not those it was made with."""
    current = state.progress.data
    state.progress = checkpoint.load_checkpoint(
        run.checkpoint_file, state.spec, state.model, state.optimizer, state.recipe, state.copies
    )
    if (earlier := state.progress.data) != current:
        raise RunError(
            f"{state.spec.data} has other training images or labels than when {run.path} was started "
            f"(by its {run.checkpoint_file.name}; now {current or 'the published ones'}, before "
            f"{earlier or 'the published ones'}): restore those, or start a new run with another --out"
        )
    if state.progress.epoch > state.spec.epochs or state.progress.batch > state.batches:
        raise RunError(
            f"{run.checkpoint_file} is not a checkpoint of this run: it has {state.progress.epoch} finished epochs and "
            f"{state.progress.batch} batches of {state.spec.epochs} and {state.batches}"
        )


def _check_same_run(run: RunDirectory, stored: TrainSpec, spec: TrainSpec, *, resume: bool) -> None:
    if stored != spec:
        raise RunError(f"{run.path} holds another run: stored and requested, {differences(stored, spec)}")
    if not resume:
        raise RunError(f"{run.path} holds this run already: add --resume to continue it, or choose another --out")


def is_finished(run: RunDirectory, spec: TrainSpec) -> bool:
    """Whether this run has a record and readable weights; if not, resuming makes them from the last checkpoint."""
    if not (run.spec_file.exists() and run.record_file.exists() and run.model_file.exists()):
        return False
    if run.read_spec() != spec:
        return False
    run.read_record()  # raises if it is damaged, or of another spec
    try:
        WeightsFile.read(run.path)
    except RunError:
        return False
    return True
