"""Curves on disk: an .npz file with the minimal radius of every example, and a .json record beside it."""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from ctrobust.errors import InputError, RunError
from ctrobust.outcomes import RobustnessCurve
from ctrobust.specs import CurveSpec, spec_hash
from ctrobust.store.arrays import read_arrays, write_arrays
from ctrobust.store.records import CheckedRecord, read_record, write_record
from ctrobust.store.run_directory import RunDirectory


class CurveRecord(CheckedRecord):
    """What is known of one curve.

    Attributes:
        hash: of `spec`; it is part of the file's name.
        spec: the attack, its radii, the data and the weights.
        arrays_sha256: of the .npz file beside this record.
        classes: the names of the classes.
        summary: the figures, as `ctrobust.outcomes.RobustnessCurve.summary` computes them.
        seconds: the wall-clock seconds; None if the curve was made by several processes, one after the other.
        environment: versions, machine and commit.
    """

    version: Literal[1] = 1
    hash: str
    spec: CurveSpec
    arrays_sha256: str
    classes: tuple[str, ...]
    summary: dict[str, Any]
    seconds: float | None
    environment: dict[str, Any]


@dataclass(frozen=True)
class StoredCurve:
    """One curve on disk: its .npz file, and what the .json file beside it holds."""

    file: Path
    record: CurveRecord

    @classmethod
    def read(cls, file: Path) -> "StoredCurve":
        """Read the record beside an .npz file; the arrays are read when `curve` is first used."""
        return cls(file, read_record(file.with_suffix(".json"), CurveRecord))

    @cached_property
    def curve(self) -> RobustnessCurve:
        """The minimal radius of every example."""
        arrays = read_arrays(self.file, self.record.arrays_sha256)
        try:
            found = RobustnessCurve.from_arrays(self.record.spec.attack, arrays)
            if tuple(found.radii) != self.record.spec.radii:
                raise InputError("its radii are not those of its record")
        except (InputError, ValueError, IndexError) as error:
            raise RunError(f"{self.file} is damaged: {error}; remove it to have it made again") from None
        return found


def curve_file(run: RunDirectory, spec: CurveSpec) -> Path:
    """Where the curve of a spec is stored in its run directory."""
    readable = re.sub(r"[^a-z0-9.=-]+", "-", spec.attack.replace("/", "_").lower()).strip("-")
    return run.path / "curves" / f"{readable[:80]}-{spec_hash(spec)}.npz"


def read_curves(run: RunDirectory) -> list[StoredCurve]:
    """All finished curves of a run."""
    files = sorted((run.path / "curves").glob("*.npz"))
    return [StoredCurve.read(file) for file in files if file.with_suffix(".json").exists()]


def find_curve(run: RunDirectory, spec: CurveSpec) -> StoredCurve | None:
    """The curve of a spec, if it is finished: the record is written after the arrays."""
    file = curve_file(run, spec)
    if not (file.exists() and file.with_suffix(".json").exists()):
        return None
    found = StoredCurve.read(file)
    if found.record.spec != spec:
        raise RunError(f"{file.with_suffix('.json')} describes another curve than its name; remove it")
    return found


def write_curve(
    run: RunDirectory,
    spec: CurveSpec,
    curve: RobustnessCurve,
    *,
    classes: tuple[str, ...],
    environment: dict[str, Any],
    seconds: float | None,
) -> StoredCurve:
    """Write a finished curve, atomically."""
    file = curve_file(run, spec)
    record = CurveRecord(
        hash=spec_hash(spec),
        spec=spec,
        arrays_sha256=write_arrays(file, curve.arrays()),
        classes=classes,
        summary=curve.summary(),
        seconds=seconds,
        environment=environment,
    )
    write_record(file.with_suffix(".json"), record)
    return StoredCurve(file, record)
