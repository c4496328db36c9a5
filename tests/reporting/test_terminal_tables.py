"""Tables in the width of a terminal."""

import pytest

from ctrobust.experiments import EXPERIMENTS, experiment
from ctrobust.reporting.cell_values import CellValue
from ctrobust.reporting.grids import CellText, Grid, GridColumn, grids
from ctrobust.reporting.terminal_tables import terminal_text


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_table_and_figure_with_all_its_values_fits_80_columns(name: str) -> None:
    one = experiment(name, "paper")
    values = [
        CellValue(88184.0) if cell.metric == "wrong_below"
        else CellValue(627.25, spread=12.25) if cell.metric == "minutes"
        else CellValue(33.33, 30.14, 36.31)
        for cell in one.all_cells
    ]  # fmt: skip
    lines = terminal_text(one.title, grids(one, values), ["A note. " * 30], 80).splitlines()
    assert max(map(len, lines)) <= 80
    numbers = sum(line.count("33.33") + line.count("88,184") + line.count("627.25") for line in lines)
    assert numbers == len(values)


GRID = Grid(
    "", "Methods", ("DO", "MDL"),
    (GridColumn("A", ("Top", "A")), GridColumn("B", ("Top", "B")), GridColumn("C", ("C",))),
    {
        ("DO", "A"): CellText("12.00", "10.0", "15.0", paper="12.5", difference="-0.50", known=True),
        ("MDL", "A"): CellText("13.00", "11.0", "16.0", bold=True, known=True),
        ("DO", "B"): CellText("not run", paper="50"),
        ("MDL", "B"): CellText("failed", paper="51", paper_bold=True),
        ("DO", "C"): CellText("1.00", spread="0.10", known=True),
    },
)  # fmt: skip


def test_a_narrow_terminal_has_blocks_that_repeat_the_rows() -> None:
    lines = terminal_text("T", [GRID], ["N"], 44).splitlines()
    assert max(map(len, lines)) <= 44
    assert sum(line.startswith("MDL") for line in lines) == 2


def test_the_larger_half_of_an_interval_is_shown_where_it_saves_a_block() -> None:
    text = terminal_text("T", [GRID], ["N"], 66)
    assert "±3.0" in text
    assert "[10.0, 15.0]" not in text
    assert "[10.0, 15.0]" in terminal_text("T", [GRID], ["N"], 100)


def test_bold_is_a_star_and_empty_parts_are_left_out() -> None:
    lines = terminal_text("T", [GRID], ["N"], 100).splitlines()
    row = next(line for line in lines if line.startswith("MDL"))
    assert row.split() == ["MDL", "13.00*", "[11.0,", "16.0]", "failed", "51*"]
    header = next(line for line in lines if "ours" in line)
    assert header.split() == ["ours", "95%", "paper", "diff", "ours", "paper", "ours", "sd"]
