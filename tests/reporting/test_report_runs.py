"""Runs are read from disk, and what cannot be read is named."""

from pathlib import Path

import pytest

from ctrobust.errors import RunError
from ctrobust.reporting.report_runs import read_runs
from tests.reporting.made_runs import make_run


def test_runs_below_a_directory_are_named_by_their_paths(tmp_path: Path) -> None:
    make_run(tmp_path / "deep" / "a")
    make_run(tmp_path / "b", finished=False)
    reading = read_runs([tmp_path])
    assert [(run.name, run.record is not None, len(run.evaluations)) for run in reading.runs] == [
        ("b", False, 0), ("deep/a", True, 3),
    ]  # fmt: skip
    assert reading.problems == []


def test_a_run_that_is_given_twice_is_read_once_and_names_stay_apart(tmp_path: Path) -> None:
    make_run(tmp_path / "x" / "a")
    make_run(tmp_path / "y" / "a")
    reading = read_runs([tmp_path / "x", tmp_path / "y" / "a", tmp_path / "x" / "a"])
    assert [run.name for run in reading.runs] == [(tmp_path / one / "a").as_posix() for one in "xy"]


def test_a_damaged_record_is_a_problem_and_the_rest_is_read(tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    make_run(tmp_path / "b")
    damaged = next(run.outcomes_folder.glob("pgd*.json"))
    damaged.write_text('{"version": 99}')
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "spec.json").write_text("no spec")
    reading = read_runs([tmp_path])
    assert [len(one.evaluations) for one in reading.runs] == [2, 3]
    assert [str(damaged) in reading.problems[0], "spec.json" in reading.problems[1]] == [True, True]


@pytest.mark.parametrize("content", [None, "empty"])
def test_a_path_without_runs_is_refused(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "here"
    if content:
        path.mkdir()
    with pytest.raises(RunError, match="no runs in" if content else "there is no"):
        read_runs([path])


def test_only_unreadable_runs_are_refused(tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text("{}")
    with pytest.raises(RunError, match="none of the 1 runs can be read; the first: "):
        read_runs([tmp_path])
