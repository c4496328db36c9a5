"""Verdicts on disk: one JSON file in the run directory, with the measurements from which the verdict follows."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from ctrobust.errors import InputError, RunError
from ctrobust.outcomes.masking import Measurement, Verdict
from ctrobust.outcomes.masking_tests import assess_masking, is_complete
from ctrobust.specs import VerdictSpec, spec_hash
from ctrobust.store.records import CheckedRecord, read_record, write_record
from ctrobust.store.run_directory import RunDirectory


class MeasurementRecord(BaseModel):
    """One measurement; arrays are texts such as "0110", one digit per example, or "[0.5, 2]"."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seconds: float
    forwards: int
    backwards: int
    remark: str
    arrays: dict[str, str]


class VerdictRecord(CheckedRecord):
    """The verdict on one weights file, rewritten after each test, so that a killed verdict goes on.

    Attributes:
        hash: of `spec`; it is part of the file's name.
        spec: the ball, the data and the weights.
        complete: whether all tests were run that need no other network.
        verdict: the level and the evidence.
        measurements: what each test measured.
        transfer: the first 16 digits of the SHA-256 of the weights that the transfer attack was made on.
        classes: the names of the classes.
        environment: versions, machine and commit.
    """

    version: Literal[1] = 1
    hash: str
    spec: VerdictSpec
    complete: bool
    verdict: Verdict
    measurements: dict[str, MeasurementRecord]
    transfer: str | None
    classes: tuple[str, ...]
    environment: dict[str, Any]

    def read_measurements(self) -> dict[str, Measurement]:
        return {test: Measurement.from_dict(one.model_dump()) for test, one in self.measurements.items()}


def verdict_file(run: RunDirectory, spec: VerdictSpec) -> Path:
    """Where the verdict of a spec is stored in its run directory."""
    return run.path / "verdicts" / f"{spec.norm}-eps={spec.eps:.4g}-{spec_hash(spec)}.json"


def read_verdicts(run: RunDirectory) -> list[VerdictRecord]:
    """All verdicts of a run, finished or not."""
    files = sorted((run.path / "verdicts").glob("*.json"))
    return [read_verdict(file) for file in files]


def read_verdict(file: Path) -> VerdictRecord:
    """Read one file of a run's directory `verdicts`, whose measurements must be those that a verdict follows from."""
    found = read_record(file, VerdictRecord)
    try:
        assess_masking(found.read_measurements(), found.verdict.setting)
    except KeyError as error:
        raise RunError(f"{file} is damaged: it has no array {error}; remove it to have it made again") from None
    except (InputError, ValueError, IndexError, ArithmeticError) as error:
        raise RunError(f"{file} is damaged: {error}; remove it to have it made again") from None
    return found


def find_verdict(run: RunDirectory, spec: VerdictSpec) -> VerdictRecord | None:
    """The verdict of a spec, finished or not."""
    file = verdict_file(run, spec)
    if not file.exists():
        return None
    found = read_verdict(file)
    if found.spec != spec:
        raise RunError(f"{file} describes another verdict than its name; remove it")
    return found


def write_verdict(
    run: RunDirectory,
    spec: VerdictSpec,
    verdict: Verdict,
    measurements: Mapping[str, Measurement],
    *,
    classes: tuple[str, ...],
    environment: dict[str, Any],
    transfer: str | None = None,
) -> VerdictRecord:
    """Write the verdict so far, atomically."""
    record = VerdictRecord(
        hash=spec_hash(spec),
        spec=spec,
        complete=is_complete(measurements, verdict.setting),
        verdict=verdict,
        measurements={
            test: MeasurementRecord.model_validate(measurement.to_dict()) for test, measurement in measurements.items()
        },
        transfer=transfer,
        classes=classes,
        environment=environment,
    )
    write_record(verdict_file(run, spec), record)
    return record
