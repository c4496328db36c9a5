"""Curves on disk."""

import json
from pathlib import Path

import numpy as np
import pytest

from ctrobust.errors import RunError
from ctrobust.outcomes import RobustnessCurve
from ctrobust.specs import CurveSpec, spec_hash
from ctrobust.store import RunDirectory, StoredCurve, find_curve, read_curves, write_arrays, write_curve
from ctrobust.store.record_checksum import add_checksum

SPEC = CurveSpec(data="digits", attack="pgd:eps=0.2", radii=(0.1, 0.2), weights="0123456789abcdef")
ONES = np.ones(4, np.int64)
CURVE = RobustnessCurve(
    "pgd:eps=0.2", np.array([0.1, 0.2]), ONES, ONES, np.array([0.0, 0.1, 0.1, 0.2]), np.array([0.1, 0.2, 0.2, np.inf]),
    3 * ONES, 2 * ONES,
)  # fmt: skip


def write(folder: Path) -> StoredCurve:
    return write_curve(
        RunDirectory(folder), SPEC, CURVE, classes=("a", "b"), environment={"python": "3"}, seconds=1.5
    )  # fmt: skip


def test_a_curve_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = write(tmp_path)
    found = find_curve(RunDirectory(tmp_path), SPEC)
    assert found == written
    assert written.file.name == f"pgd-eps=0.2-{spec_hash(SPEC)}.npz"
    assert found.curve.summary() == CURVE.summary() == found.record.summary
    assert found.curve.robust_accuracies == (0.75, 0.25)
    assert [one.file for one in read_curves(RunDirectory(tmp_path))] == [written.file]
    assert find_curve(RunDirectory(tmp_path), SPEC.model_copy(update={"bisections": 1})) is None


def test_an_unfinished_curve_is_not_found(tmp_path: Path) -> None:
    write(tmp_path).file.with_suffix(".json").unlink()
    assert find_curve(RunDirectory(tmp_path), SPEC) is None
    assert read_curves(RunDirectory(tmp_path)) == []


def test_changed_arrays_and_records_are_refused_by_name(tmp_path: Path) -> None:
    written = write(tmp_path)
    arrays = {**CURVE.arrays(), "radii": np.array([0.1, 0.3])}
    digest = write_arrays(written.file, arrays)
    with pytest.raises(RunError, match=rf"{written.file.name} is damaged: its SHA-256"):
        _ = StoredCurve.read(written.file).curve
    record = json.loads(written.file.with_suffix(".json").read_text())
    del record["sha256"]
    written.file.with_suffix(".json").write_text(add_checksum(json.dumps({**record, "arrays_sha256": digest})))
    with pytest.raises(RunError, match="its radii are not those of its record"):
        _ = StoredCurve.read(written.file).curve
    written.file.with_suffix(".json").write_text(json.dumps({**record, "hash": "0", "sha256": "0"}))
    with pytest.raises(RunError, match="checksum"):
        StoredCurve.read(written.file)


def test_a_record_under_the_name_of_another_is_refused(tmp_path: Path) -> None:
    written = write(tmp_path)
    other = SPEC.model_copy(update={"bisections": 2})
    name = written.file.with_name(f"pgd-eps=0.2-{spec_hash(other)}.npz")
    for suffix in (".npz", ".json"):
        written.file.with_suffix(suffix).rename(name.with_suffix(suffix))
    with pytest.raises(RunError, match="describes another curve than its name"):
        find_curve(RunDirectory(tmp_path), other)
