"""The record of a finished run."""

from collections.abc import Sequence
from typing import Any

from ctrobust.data import Dataset
from ctrobust.evaluation import evaluate
from ctrobust.specs import spec_hash
from ctrobust.training.epoch_metrics import logits_must_be_finite
from ctrobust.training.learning_warnings import learning_warnings
from ctrobust.training.training_state import TrainingState


def make_record(state: TrainingState, test_set: Dataset, losses: Sequence[float]) -> dict[str, Any]:
    """Evaluate the network on the test set, and describe the run; `losses` are the mean losses of its epochs."""
    spec, progress = state.spec, state.progress
    with logits_must_be_finite():
        outcome = evaluate(state.result.eval(), test_set)
    record = {
        "spec": spec_hash(spec),
        "data": {
            "name": state.train.name,
            "train": len(state.train),
            "test": len(test_set),
            "verified": state.train.verified and test_set.verified,
        },
        "results": outcome.summary(),
        "steps": progress.step,
        "seconds_per_epoch": [round(value, 3) for value in progress.seconds[:-1]],
        "cpu_seconds_per_epoch": [None if value is None else round(value, 3) for value in progress.cpu_seconds[:-1]],
        "warnings": learning_warnings(spec, progress.step, losses, outcome),
        "environment": progress.environments[-1],
    }
    if len(progress.environments) > 1:
        record["earlier_environments"] = progress.environments[:-1]
    if state.average:
        record["weights"] = f"moving average, decay {spec.ema:g}"
    if state.validation_set is not None:
        record["validation"] = {"count": len(state.validation_set), "best": progress.best}
    if state.eps is not None:
        record["collapses"] = progress.collapses
    if progress.returned_to is not None:
        record["returned_to_epoch"] = progress.returned_to
    return record
