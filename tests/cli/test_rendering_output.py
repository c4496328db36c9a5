"""What `ctrobust reproduce` prints and writes."""

from pathlib import Path

from tests.cli.command import Inside

RESULTS = Path(__file__).parents[2] / "results"


def test_figures_are_written_and_text_fits_80_columns(inside: Inside, tmp_path: Path) -> None:
    figures = tmp_path / "figures"
    done = inside(f"reproduce table1 figure1 --no-run --store {tmp_path} --results {RESULTS} --figures {figures}")
    assert done.code == 0
    assert {file.name for file in figures.iterdir()} == {"figure1.json", "figure1.png", "figure1.svg"}
    assert f"wrote {figures / 'figure1.png'}" in done.err
    assert max(map(len, done.out.splitlines())) <= 80


def test_a_directory_for_figures_without_a_figure_is_refused_before_anything_runs(
    inside: Inside, tmp_path: Path
) -> None:
    done = inside(f"reproduce table7 --preset smoke --store {tmp_path / 'runs'} --figures {tmp_path / 'figures'}")
    assert (done.code, "--figures is for figures; table7 has none" in done.err) == (2, True)
    assert list(tmp_path.iterdir()) == []
