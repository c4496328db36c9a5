"""`ctrobust report`."""

from pathlib import Path

import pytest

from tests.cli.command import Inside
from tests.reporting.made_runs import make_run


def test_a_report_is_made_and_made_again(inside: Inside, tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "a")
    for _ in range(2):
        done = inside("report runs --title", "My <networks>")
        assert done.code == 0, done.err
        assert done.out.startswith("report: report.html (")
        assert done.out.rstrip().endswith("MB, 1 runs, 3 evaluations); open it in a browser")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<title>My &lt;networks&gt;</title>" in page


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("report nowhere", 5, "there is no nowhere"),
        ("report empty", 5, "no runs in empty"),
        ("report runs -o foreign.html", 2, "foreign.html exists and is not a report of ctrobust; --force replaces it"),
        ("report runs -o runs", 2, "runs is a directory; -o names the file to write"),
        ("report runs -o foreign.html/x.html", 5, "cannot write foreign.html/x.html"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_is_lost(
    inside: Inside, tmp_path: Path, words: str, code: int, message: str
) -> None:
    make_run(tmp_path / "runs" / "a")
    (tmp_path / "empty").mkdir()
    (tmp_path / "foreign.html").write_text("mine")
    done = inside(words)
    assert (done.code, done.out) == (code, "")
    assert message in done.err
    assert (tmp_path / "foreign.html").read_text() == "mine"


def test_a_foreign_file_is_replaced_by_force(inside: Inside, tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "a")
    (tmp_path / "foreign.html").write_text("mine")
    assert inside("report runs --force -o foreign.html").code == 0
    assert (tmp_path / "foreign.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_files_that_are_left_out_are_named(inside: Inside, tmp_path: Path) -> None:
    run = make_run(tmp_path / "a")
    next(run.outcomes_folder.glob("pgd*.npz")).write_bytes(b"x")
    done = inside("report a")
    assert done.code == 0
    assert "warning: left out of the report: a/outcomes/pgd-eps=0.1-" in done.err
