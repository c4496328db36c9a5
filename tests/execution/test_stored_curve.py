"""Curves of a run, made once."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ctrobust import data as datasets
from ctrobust.attacks import parse
from ctrobust.errors import InUseError, RunError
from ctrobust.evaluation import curves
from ctrobust.execution import CurveRow, curves_stored, read_weights
from ctrobust.store import RunDirectory, curve_file, read_curves

DIGITS = datasets.load("digits", "test")
RADII = [0.05, 0.1, 0.15]


def make(run: Path, attack: str = "pgd:eps=0.15,steps=3", **changed: object) -> CurveRow:
    options = {"limit": 30, "chunk": 10, **changed}
    (row,) = curves_stored(read_weights(run), DIGITS, [parse(attack)], RADII, **options)  # type: ignore[arg-type]
    return row


def test_a_curve_is_made_once_and_found_again(run: Path) -> None:
    first, again = make(run), make(run)
    assert first.seconds is not None
    assert again.seconds is None
    assert first.file == again.file
    assert first.curve.summary() == again.curve.summary()
    assert make(run, bisections=1).seconds is not None
    assert len(read_curves(RunDirectory(run))) == 2


class Killed(BaseException):
    """Stands for a signal."""


def test_a_killed_curve_goes_on_from_its_last_batch(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = make(run, limit=30).curve
    for file in (run / "curves").iterdir():
        file.unlink()
    batches: list[int] = []
    original = curves._CurveRunner._run_batch

    def second_dies(self: curves._CurveRunner, index: object, report: object) -> object:
        batches.append(1)
        if len(batches) == 2:
            raise Killed
        return original(self, index, report)  # type: ignore[arg-type]

    monkeypatch.setattr(curves._CurveRunner, "_run_batch", second_dies)
    with pytest.raises(Killed):
        make(run)
    row = make(run)
    assert len(batches) == 4  # the first batch was not attacked again
    np.testing.assert_array_equal(row.curve.broken_at, whole.broken_at)
    (stored,) = read_curves(RunDirectory(run))
    assert stored.record.seconds is None  # the time of the killed process is not known
    assert not list((run / "curves").glob("*.partial"))


def test_stored_curves_of_other_examples_are_refused(run: Path) -> None:
    file = make(run).file
    assert file is not None
    other = replace(DIGITS, labels=DIGITS.labels.flip(0))
    with pytest.raises(RunError, match="holds other examples"):
        list(curves_stored(read_weights(run), other, [parse("pgd:eps=0.15,steps=3")], RADII, limit=30, chunk=10))


def test_two_processes_do_not_make_the_same_curve(run: Path) -> None:
    row = make(run)
    assert row.file is not None
    (stored,) = read_curves(RunDirectory(run))
    row.file.unlink()
    (run / "curves").mkdir(exist_ok=True)
    directory = RunDirectory(run)
    with directory.writing(curve_file(directory, stored.record.spec)), pytest.raises(InUseError):
        make(run)


def test_a_weights_file_outside_a_run_stores_nothing(run: Path, tmp_path: Path) -> None:
    alone = tmp_path / "weights.safetensors"
    alone.write_bytes((run / "model.safetensors").read_bytes())
    row = make(alone)
    assert row.file is None
    assert row.curve.robust_accuracies == make(run).curve.robust_accuracies
