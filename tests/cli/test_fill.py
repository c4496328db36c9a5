"""`ctrobust fill`."""

from pathlib import Path

from tests.cli.command import Inside

ROOT = Path(__file__).parents[2]


def test_a_page_is_filled_and_checked(inside: Inside, tmp_path: Path) -> None:
    page, results = tmp_path / "page.md", ROOT / "results"
    page.write_text('<!-- table: thresholds\nruns = ["fashion-mdl"]\n-->\n<!-- end of table -->\n')
    assert inside(f"fill {page} --results {results} --check").code == 6
    assert "88,184" not in page.read_text()
    done = inside(f"fill {page} --results {results}")
    assert done.code == 0
    assert "filled" in done.out
    assert "| fashion-mdl | 88,184 | 0.4769 |" in page.read_text()
    assert inside(f"fill {page} --results {results} --check").code == 0


def test_wrong_paths_are_explained(inside: Inside, tmp_path: Path) -> None:
    done = inside(f"fill {tmp_path / 'absent.md'} --results {tmp_path}")
    assert (done.code, "cannot read" in done.err) == (2, True)
    done = inside(f"fill {tmp_path / 'absent.md'} --results {tmp_path / 'absent'}")
    assert (done.code, "there is no such directory" in done.err) == (2, True)
