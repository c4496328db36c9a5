"""Verdicts on disk."""

import json
from pathlib import Path

import numpy as np
import pytest

from ctrobust.errors import RunError
from ctrobust.outcomes import MaskingSetting, Measurement, assess_masking
from ctrobust.specs import VerdictSpec, spec_hash
from ctrobust.store import RunDirectory, VerdictRecord, find_verdict, read_verdicts, write_verdict
from ctrobust.store.records import write_record

SPEC = VerdictSpec(data="digits", eps=8 / 255, weights="0123456789abcdef")
SETTING = MaskingSetting(8 / 255, "linf", 4, 10)
MEASURED = {
    "randomized": Measurement({"distance": np.array([0.0])}, 0.5, 20),
    "unlimited radius": Measurement({"pgd": np.array([True, True, True, False])}, 1.5, 9, 7, "A remark."),
}


def write(run: RunDirectory, spec: VerdictSpec = SPEC) -> VerdictRecord:
    verdict = assess_masking(MEASURED, SETTING)
    return write_verdict(run, spec, verdict, MEASURED, classes=("a", "b"), environment={"python": "3"})


def test_a_verdict_is_read_as_it_was_written(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    written = write(run)
    found = find_verdict(run, SPEC)
    assert found == written
    assert read_verdicts(run) == [written]
    assert found.verdict == assess_masking(MEASURED, SETTING)
    assert (found.verdict.level, found.complete) == ("masked", False)
    again = found.read_measurements()
    assert assess_masking(again, found.verdict.setting) == found.verdict
    np.testing.assert_array_equal(again["unlimited radius"].arrays["pgd"], [True, True, True, False])
    (file,) = (tmp_path / "verdicts").iterdir()
    assert file.name == f"linf-eps=0.03137-{spec_hash(SPEC)}.json"
    assert json.loads(file.read_text())["spec"]["weights"] == "0123456789abcdef"


def test_verdicts_of_other_specs_are_not_found(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    assert read_verdicts(run) == []
    write(run)
    assert find_verdict(run, SPEC.model_copy(update={"seed": 1})) is None
    other = SPEC.model_copy(update={"eps": 0.1})
    write(run, other)
    assert len(read_verdicts(run)) == 2
    assert find_verdict(run, other) is not None


def test_a_damaged_verdict_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    write(run)
    (file,) = (tmp_path / "verdicts").iterdir()
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, "version": 9}))
    with pytest.raises(RunError, match=r"linf-eps=0\.03137-.* is damaged or of another version: version"):
        read_verdicts(run)
    file.write_text(json.dumps(content))
    (record,) = read_verdicts(run)
    write_record(file, record.model_copy(update={"spec": record.spec.model_copy(update={"seed": 4})}))
    with pytest.raises(RunError, match="describes another verdict than its name"):
        find_verdict(run, SPEC)


@pytest.mark.parametrize("text", ["012", "[1, [2]]", '["a"]', "[" * 100_000])
def test_measurements_that_are_no_numbers_are_refused(tmp_path: Path, text: str) -> None:
    run = RunDirectory(tmp_path)
    write(run)
    (file,) = (tmp_path / "verdicts").iterdir()
    content = json.loads(file.read_text())
    del content["sha256"]
    content["measurements"]["randomized"]["arrays"]["distance"] = text
    file.write_text(json.dumps(content))
    for read in (lambda: find_verdict(run, SPEC), lambda: read_verdicts(run)):
        with pytest.raises(RunError, match=r"linf-eps=0\.03137-.* is damaged: the array distance .*; remove it"):
            read()


def test_measurements_without_an_array_of_their_test_are_refused(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    write(run)
    (file,) = (tmp_path / "verdicts").iterdir()
    content = json.loads(file.read_text())
    del content["sha256"], content["measurements"]["randomized"]["arrays"]["distance"]
    file.write_text(json.dumps(content))
    with pytest.raises(RunError, match="is damaged: it has no array 'distance'; remove it"):
        read_verdicts(run)


def test_fields_at_their_default_are_not_in_the_hash() -> None:
    """A golden hash: a change here makes stored verdicts unknown."""
    assert spec_hash(SPEC) == "5be9305707bde17a"
