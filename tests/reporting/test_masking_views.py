"""Verdicts on gradient masking, read from the files that tests of masking write."""

from pathlib import Path
from typing import Any

import pytest

from ctrobust.outcomes.masking import Evidence, Level, MaskingSetting, Verdict
from ctrobust.reporting.masking_views import VerdictView, verdict_view
from ctrobust.reporting.report_models import group_models
from ctrobust.reporting.report_runs import read_runs
from ctrobust.reporting.report_sections import make_sections
from ctrobust.specs import VerdictSpec, spec_hash
from ctrobust.store import RunDirectory
from ctrobust.store.records import write_record
from ctrobust.store.verdict_files import VerdictRecord, verdict_file
from tests.reporting.made_runs import WEIGHTS, make_run


def write_verdict_file(
    run: Path, level: Level, *, weights: str = WEIGHTS[:16], evidence: tuple[Evidence, ...] = (), **spec: Any
) -> None:
    """A file as `ctrobust evaluate --verdict` writes it, without the measurements."""
    evidence = evidence or (
        Evidence("noise", level, "Noise breaks 9 of 64 <images>.", seconds=1.0),
        Evidence("transfer", "not tested", "No other network was given."),
    )
    fields = {"data": "digits", "limit": 64, "eps": 0.1, "weights": weights, **spec}
    described = VerdictSpec.model_validate(fields)
    setting = MaskingSetting(described.eps, "linf", 64, 10)
    record = VerdictRecord(
        hash=spec_hash(described), spec=described, complete=True, verdict=Verdict(level, evidence, setting),
        measurements={}, transfer=None, classes=("a", "b"), environment={},
    )  # fmt: skip
    write_record(verdict_file(RunDirectory(run), described), record)


def view(path: Path) -> VerdictView:
    (section,) = make_sections(group_models(read_runs([path]).runs))
    return verdict_view(section, section.models[0])


def test_without_a_verdict_there_is_the_command_that_makes_one(tmp_path: Path) -> None:
    make_run(tmp_path / "a")
    found = view(tmp_path)
    assert (found.level, found.colour, found.evidence) == ("not tested", "unknown", ())
    assert found.command == f"ctrobust evaluate {tmp_path / 'a'} --verdict --eps 0.1"


@pytest.mark.parametrize(
    ("level", "colour", "words"),
    [
        ("none found", "good", "No sign that attacks fail for another reason than robustness: 1 of 2 tests"),
        ("suspicious", "warn", "Some signs that attacks fail without the network being robust (noise)"),
        ("masked", "bad", "Attacks fail because gradients are masked, not because the network is robust (noise)"),
    ],
)
def test_a_stored_verdict_is_shown_with_its_evidence(tmp_path: Path, level: Level, colour: str, words: str) -> None:
    run = make_run(tmp_path / "a")
    write_verdict_file(run.path, level)
    found = view(tmp_path)
    assert (found.level, found.colour) == (level, colour)
    assert found.sentence.startswith(words)
    assert "within L∞ 0.1 on 64 images" in found.sentence
    assert [(one.test, one.level) for one in found.evidence] == [("noise", level), ("transfer", "not tested")]


def test_verdicts_on_other_weights_or_data_do_not_count(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    write_verdict_file(run.path, "masked", weights="f" * 16)
    write_verdict_file(run.path, "masked", data="mnist")
    assert view(tmp_path).level == "not tested"


def test_the_verdict_nearest_to_the_compared_radius_is_shown(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    write_verdict_file(run.path, "masked", eps=0.5)
    write_verdict_file(run.path, "none found", eps=0.1)
    assert view(tmp_path).level == "none found"


def test_a_seed_that_was_not_tested_leaves_the_model_untested(tmp_path: Path) -> None:
    write_verdict_file(make_run(tmp_path / "a-seed0").path, "none found")
    make_run(tmp_path / "a-seed1", {"seed": 1})
    assert view(tmp_path).level == "not tested"
    write_verdict_file(tmp_path / "a-seed1", "suspicious")
    found = view(tmp_path)
    assert found.level == "suspicious"
    assert found.sentence.startswith("Seed 1, the worst of 2 seeds: Some signs")


def test_too_few_tests_are_counted(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    evidence = (Evidence("noise", "none found", "Nothing."), Evidence("transfer", "not tested", "No other network."))
    write_verdict_file(run.path, "not tested", evidence=evidence)
    found = view(tmp_path)
    assert (found.title, found.colour) == ("1 of 2 tests run", "unknown")
    assert found.sentence.startswith(
        "No sign of masking so far, but too few tests were run for a verdict: 1 of 2 tests"
    )


def test_a_damaged_verdict_is_a_problem(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    (run.path / "verdicts").mkdir()
    (run.path / "verdicts" / "x.json").write_text("{}")
    reading = read_runs([tmp_path])
    assert "x.json is damaged or of another version: " in reading.problems[0]
    assert len(reading.runs) == 1
