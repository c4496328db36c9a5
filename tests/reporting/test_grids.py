"""Texts of cells, and which of them are bold."""

from dataclasses import replace

from ctrobust.experiments import Cell, Table, experiment
from ctrobust.reporting.cell_values import CellValue
from ctrobust.reporting.grids import Grid, cell_text, grids


def table(name: str) -> Table:
    found = experiment(name, "paper")
    assert isinstance(found, Table)
    return found


def printed(one: Table) -> list[CellValue]:
    """The paper's own values, as if they were ours."""
    return [
        CellValue(None if cell.paper is None else cell.paper if isinstance(cell.paper, float) else cell.paper.value)
        for cell in one.all_cells
    ]


def bold(grid: Grid) -> set[tuple[str, str]]:
    return {position for position, text in grid.texts.items() if text.bold}


def test_the_papers_values_are_bold_where_the_paper_has_them_bold() -> None:
    for name in ("table1", "table4", "table5", "table8"):
        one = table(name)
        assert bold(grids(one, printed(one))[0]) == {(cell.row, cell.column) for cell in one.cells if cell.bold}, name


def test_nothing_is_bold_before_every_row_has_a_value() -> None:
    one = table("table4")
    values = [replace(value, value=None) if i == 0 else value for i, value in enumerate(printed(one))]
    column = one.cells[0].column
    assert column not in {found for _, found in bold(grids(one, values)[0])}
    assert {found for _, found in bold(grids(one, values)[0])} == {other.label for other in one.columns} - {column}


def test_second_readings_are_a_grid_of_their_own() -> None:
    main, second = grids(table("table7"), printed(table("table7")))
    assert len(main.rows) == 15
    assert [column.label for column in second.columns] == ["NT"]
    assert second.rows[0] == "PGD CE, steps of eps/4"


def test_texts_of_a_value_with_an_interval() -> None:
    text = cell_text(Cell("", "", "accuracy", (), "93.53", bold=True), CellValue(92.791, 92.26, 93.28))
    assert (text.ours, text.interval, text.margin, text.difference) == ("92.79", "[92.3, 93.3]", "±0.5", "-0.74")
    assert (text.paper, text.paper_bold, text.bold) == ("93.53", True, False)


def test_texts_of_a_mean_over_seeds() -> None:
    text = cell_text(Cell("", "", "accuracy", (), "93.38+0.13"), CellValue(93.0, spread=0.256))
    assert (text.ours, text.interval, text.paper, text.difference) == ("93.00", "±0.26", "93.38 ± 0.13", "-0.38")


def test_counts_have_no_decimals() -> None:
    text = cell_text(Cell("", "", "wrong_below", (), "89858"), CellValue(88184.0))
    assert (text.ours, text.paper, text.difference) == ("88,184", "89,858", "-1,674")


def test_a_cell_without_a_value_says_why() -> None:
    assert cell_text(Cell("", "", "accuracy", ()), CellValue(None, remark="failed")).ours == "failed"
    assert cell_text(Cell("", "", "tsne", ()), CellValue(None, remark="stored")).known
