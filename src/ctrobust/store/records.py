"""What is recorded of a finished run and of an evaluation: typed and versioned, as JSON."""

import json
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ctrobust.errors import RunError
from ctrobust.regular_file import read_regular_file
from ctrobust.specs import EvaluationSpec
from ctrobust.store.atomic import write_atomic
from ctrobust.store.record_checksum import add_checksum, has_valid_checksum

MOST_RECORD_BYTES = 64 << 20
_REMEDY = "remove it to have it made again"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CheckedRecord(_Record):
    """A record with a file of its own, in which `sha256` is the checksum of the other fields."""

    sha256: str | None = Field(default=None, exclude=True, repr=False)


class ThresholdSummary(_Record):
    """The fields of `ctrobust.outcomes.ThresholdStatistics`."""

    threshold: float
    wrong_below: int
    wrong_total: int
    sweep_thresholds: tuple[float, ...]
    sweep_counts: tuple[int, ...]
    confidence_levels: tuple[float, ...]
    count_above: tuple[int, ...]
    accuracy_above: tuple[float | None, ...]
    largest_wrong_confidence: float | None

    @model_validator(mode="after")
    def _check_lengths(self) -> "ThresholdSummary":
        sweep, levels = len(self.sweep_thresholds), len(self.confidence_levels)
        if len(self.sweep_counts) != sweep or {len(self.count_above), len(self.accuracy_above)} != {levels}:
            raise ValueError("its lists have not one number for each threshold and level")
        return self


class OutcomeSummary(_Record):
    """The figures of one evaluation, as `ctrobust.outcomes.Evaluation.summary` computes them."""

    count: int
    accuracy: float
    accuracy_interval: tuple[float, float]
    robust_accuracy: float
    interval: tuple[float, float]
    attack_success_rate: float
    success_on_correct: float | None
    largest_distance: float
    forwards: int
    backwards: int
    unconfirmed: int
    threshold: ThresholdSummary


class RunData(_Record):
    """The data of a run. `verified` means that the files are the published ones."""

    name: str
    train: int
    test: int
    verified: bool
    classes: tuple[str, ...]


class ValidationRecord(_Record):
    """The held-out images and the best epoch on them."""

    count: int
    best: dict[str, int | float] | None


class CollapseRecord(_Record):
    """One epoch of catastrophic overfitting.

    Attributes:
        epoch: from 1.
        before: the accuracy under PGD-5 in the best epoch so far; None in the first epoch.
        after: the accuracy under PGD-5 now.
        one_step: the accuracy under the recipe's own step.
        clean: the accuracy on clean images; None in records of older versions.
    """

    epoch: int
    before: float | None
    after: float
    one_step: float
    clean: float | None = None


class RunRecord(CheckedRecord):
    """The record of a finished training run.

    Attributes:
        spec: the hash of the run's spec.
        weights_sha256: of model.safetensors, by which evaluations name the network.
        results: of the last weights on the clean test images.
        seconds_per_epoch: wall-clock seconds; a busy or stopped machine inflates them.
        cpu_seconds_per_epoch: processor seconds of all threads; None where they were not recorded.
        environment: of the last process of the run; earlier_environments are those before a change.
        weight_average: what the weights are an average of, if they are.
        collapses: the epochs of catastrophic overfitting; None for natural training.
        returned_to_epoch: the epoch whose weights are kept, for a run that stopped at a collapse.
        warnings: what a user should know about this run.
    """

    version: Literal[2] = 2
    spec: str
    weights_sha256: str
    data: RunData
    results: OutcomeSummary
    steps: int
    seconds_per_epoch: tuple[float, ...]
    cpu_seconds_per_epoch: tuple[float | None, ...] | None = None
    environment: dict[str, Any]
    earlier_environments: tuple[dict[str, Any], ...] = ()
    weight_average: str | None = None
    validation: ValidationRecord | None = None
    collapses: tuple[CollapseRecord, ...] | None = None
    returned_to_epoch: int | None = None
    warnings: tuple[str, ...] = ()


class EvaluationRecord(CheckedRecord):
    """What is known of one file of outcomes; None is what older versions did not record.

    Attributes:
        hash: of `spec`; it is part of the file's name.
        spec: the attack, the data and the weights.
        arrays_sha256: of the .npz file beside this record.
        clean: the name of the file with the clean outcomes of the same examples; None if this is that file.
        probabilities: how the class probabilities of attacked images are stored.
        classes: the names of the classes.
        summary: the figures.
        seconds, cpu_seconds: what the attack took, in wall-clock and processor time.
        environment: versions, machine and commit.
        fused: whether the attack used the fused copy of the model.
        fused_logit_difference: the largest difference between the logits of the fused copy and the original model.
        left_out: the stages that the attack skipped because the model has too few classes.
        broken_by: of an ensemble, how many examples each of its attacks broke of those that the ones before left.
    """

    version: Literal[1] = 1
    hash: str
    spec: EvaluationSpec
    arrays_sha256: str
    clean: str | None
    probabilities: Literal["single", "half", "none"]
    classes: tuple[str, ...] | None
    summary: OutcomeSummary
    seconds: float | None
    cpu_seconds: float | None
    environment: dict[str, Any] | None
    fused: bool | None
    fused_logit_difference: float | None
    left_out: tuple[str, ...] | None
    broken_by: dict[str, int] | None = None


RecordType = TypeVar("RecordType", bound=CheckedRecord)


def write_record(path: Path, record: BaseModel) -> None:
    """Write a record as indented JSON with a checksum, atomically."""
    write_atomic(path, add_checksum(record.model_dump_json()).encode())


def read_record(path: Path, kind: type[RecordType]) -> RecordType:
    """Read and validate a record, and verify its checksum; records of earlier versions have none."""
    try:
        content = read_regular_file(path, MOST_RECORD_BYTES)
        record = kind.model_validate_json(content)
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror or error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise RunError(f"{path} is damaged or of another version: {where}: {first['msg']}; {_REMEDY}") from None
    if not has_valid_checksum(json.loads(content)):
        raise RunError(
            f"{path} is damaged: its checksum is not that of its fields, so a value in it has changed; {_REMEDY}"
        )
    return record.model_copy(update={"sha256": None})
