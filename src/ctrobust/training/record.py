"""The record of a finished run."""

import hashlib

from ctrobust.data import Dataset
from ctrobust.evaluation import evaluate
from ctrobust.outcomes import Evaluation
from ctrobust.specs import spec_hash
from ctrobust.store import OutcomeSummary, RunDirectory, RunRecord
from ctrobust.store.records import CollapseRecord, RunData, ValidationRecord
from ctrobust.training.epoch_metrics import logits_must_be_finite
from ctrobust.training.learning_warnings import learning_warnings
from ctrobust.training.training_state import TrainingState


def evaluate_result(state: TrainingState, test_set: Dataset) -> Evaluation:
    """Evaluate the network that the run produced on the clean test set."""
    with logits_must_be_finite():
        return evaluate(state.result.eval(), test_set)


def make_record(state: TrainingState, run: RunDirectory, test_set: Dataset, outcome: Evaluation) -> RunRecord:
    """Describe a run whose weights and metrics are in its directory, and what its network gives on the test set."""
    spec, progress, validation = state.spec, state.progress, state.validation_set
    losses = [line["loss"] for line in run.read_metrics() if "loss" in line]  # a damaged line may be missing
    return RunRecord(
        spec=spec_hash(spec),
        weights_sha256=hashlib.sha256(run.model_file.read_bytes()).hexdigest(),
        data=RunData(
            name=state.train.name,
            train=len(state.train),
            test=len(test_set),
            verified=state.train.verified and test_set.verified,
            classes=tuple(state.train.classes),
        ),
        results=OutcomeSummary.model_validate(outcome.summary()),
        steps=progress.step,
        seconds_per_epoch=tuple(round(value, 3) for value in progress.seconds[:-1]),
        cpu_seconds_per_epoch=tuple(None if value is None else round(value, 3) for value in progress.cpu_seconds[:-1]),
        environment=progress.environments[-1],
        earlier_environments=tuple(progress.environments[:-1]),
        weight_average=f"moving average, decay {spec.ema:g}" if state.average else None,
        validation=None if validation is None else ValidationRecord(count=len(validation), best=progress.best),
        collapses=None
        if state.eps is None
        else tuple(CollapseRecord.model_validate(one) for one in progress.collapses),
        returned_to_epoch=progress.returned_to,
        warnings=(*map(_rate_change, spec.lr_changes), *learning_warnings(spec, progress.step, losses, outcome)),
    )


def _rate_change(change: tuple[int, float]) -> str:
    epochs, rate = change
    return f"The largest learning rate was changed to {rate:g} after epoch {epochs}."
