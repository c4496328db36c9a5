"""Whose a run directory is: an empty one is taken, what is there is gone on with, and another run is refused."""

import contextlib
from collections.abc import Iterator

from ctrobust.errors import CtrobustError, RunError
from ctrobust.models.tensor_files import read_tensors
from ctrobust.specs import TrainSpec, differences, spec_hash
from ctrobust.store import RunDirectory
from ctrobust.training import checkpoint
from ctrobust.training.training_state import TrainingState


def open_run(held: contextlib.ExitStack, run: RunDirectory, spec: TrainSpec, *, resume: bool) -> CtrobustError | None:
    """Lock an empty directory for the spec, or what is there and may go on, for as long as `held`.

    An error is given, not raised, so that all processes can be told.
    """
    try:
        held.enter_context(run.locked())
        if run.spec_file.exists():
            _check_same(run, spec, resume=resume)
        else:
            run.write_spec(spec)
            held.enter_context(_left_empty_by_errors(run))
    except CtrobustError as error:
        return error
    return None


@contextlib.contextmanager
def _left_empty_by_errors(run: RunDirectory) -> Iterator[None]:
    """A run that could not come to its first checkpoint does not keep its directory from a corrected one."""
    try:
        yield
    except CtrobustError:
        if not run.checkpoint_file.exists():
            run.abandon()
        raise


def resume_from_checkpoint(state: TrainingState, run: RunDirectory) -> None:
    """Go on from the checkpoint, if the data are those that it was made with."""
    now = state.progress.data
    state.progress = checkpoint.load_checkpoint(
        run.checkpoint_file, spec_hash(state.spec), state.model, state.optimizer, state.recipe, state.copies
    )
    if (then := state.progress.data) != now:
        raise RunError(
            f"{state.spec.data} has other training images or labels than when {run.path} began "
            f"({now or 'the published ones'}, then {then or 'the published ones'}): bring those back, "
            "or begin anew with another --out"
        )


def _check_same(run: RunDirectory, spec: TrainSpec, *, resume: bool) -> None:
    """Refuse to go on with another run, or unasked."""
    if (stored := run.read_spec()) != spec:
        raise RunError(f"{run.path} holds another run: there and as asked, {differences(stored, spec)}")
    if not resume:
        raise RunError(f"{run.path} holds this run already: add --resume to go on with it, or choose another --out")


def finished(run: RunDirectory, spec: TrainSpec) -> bool:
    """Whether this run has its record, and weights that can be read: else the last checkpoint gives them again."""
    if not (run.spec_file.exists() and run.record_file.exists() and run.model_file.exists()):
        return False
    if run.read_spec() != spec:
        return False
    try:
        read_tensors(run.model_file)
    except RunError:
        return False
    return True
