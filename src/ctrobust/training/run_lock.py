"""Open a run directory for training: lock it, and refuse one that holds another run."""

import contextlib
from collections.abc import Iterator

from lightning_fabric import Fabric

from ctrobust.errors import CtrobustError, RunError
from ctrobust.models.tensor_files import read_tensors
from ctrobust.specs import TrainSpec, differences, spec_hash
from ctrobust.store import RunDirectory
from ctrobust.training import checkpoint
from ctrobust.training.training_state import TrainingState


def open_run(stack: contextlib.ExitStack, fabric: Fabric, run: RunDirectory, spec: TrainSpec, *, resume: bool) -> bool:
    """Lock the directory until `stack` closes, and return whether to resume from its checkpoint.

    Rank 0 alone looks at the disk; all processes follow its decision, or raise its error.
    """
    error: CtrobustError | None = None
    has_checkpoint = False
    if fabric.is_global_zero:
        try:
            _lock(stack, run, spec, resume=resume)
            has_checkpoint = run.checkpoint_file.exists()
        except CtrobustError as refused:
            error = refused
    error, has_checkpoint = fabric.broadcast((error, has_checkpoint))
    if error is not None:
        raise error
    return has_checkpoint


def _lock(stack: contextlib.ExitStack, run: RunDirectory, spec: TrainSpec, *, resume: bool) -> None:
    stack.enter_context(run.locked())
    if run.spec_file.exists():
        _check_same_run(run, spec, resume=resume)
    else:
        run.write_spec(spec)
        stack.enter_context(_abandon_on_error(run))


@contextlib.contextmanager
def _abandon_on_error(run: RunDirectory) -> Iterator[None]:
    """Free the directory for a corrected run if this one fails before its first checkpoint."""
    try:
        yield
    except CtrobustError:
        if not run.checkpoint_file.exists():
            run.clear()
        raise


def resume_from_checkpoint(state: TrainingState, run: RunDirectory) -> None:
    """Load the checkpoint; raise if the training data are not those it was made with."""
    current = state.progress.data
    state.progress = checkpoint.load_checkpoint(
        run.checkpoint_file, spec_hash(state.spec), state.model, state.optimizer, state.recipe, state.copies
    )
    if (earlier := state.progress.data) != current:
        raise RunError(
            f"{state.spec.data} has other training images or labels than when {run.path} was started "
            f"(now {current or 'the published ones'}, before {earlier or 'the published ones'}): restore those, "
            "or start a new run with another --out"
        )


def _check_same_run(run: RunDirectory, spec: TrainSpec, *, resume: bool) -> None:
    if (stored := run.read_spec()) != spec:
        raise RunError(f"{run.path} holds another run: stored and requested, {differences(stored, spec)}")
    if not resume:
        raise RunError(f"{run.path} holds this run already: add --resume to continue it, or choose another --out")


def is_finished(run: RunDirectory, spec: TrainSpec) -> bool:
    """Whether this run has a record and readable weights; if not, resuming makes them from the last checkpoint."""
    if not (run.spec_file.exists() and run.record_file.exists() and run.model_file.exists()):
        return False
    if run.read_spec() != spec:
        return False
    try:
        read_tensors(run.model_file)
    except RunError:
        return False
    return True
