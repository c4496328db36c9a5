"""Selected cells of tables and figures."""

import pytest

from ctrobust.errors import InputError
from ctrobust.experiments import Figure, Table, experiment, select_cells


def test_without_texts_everything_is_kept() -> None:
    whole = [experiment("table1"), experiment("figure3")]
    assert select_cells(whole, ()) == whole


def test_a_table_keeps_the_rows_and_columns_of_its_cells_and_their_second_readings() -> None:
    table = experiment("table7", "laptop")
    assert isinstance(table, Table)
    text = table.second_readings[0].column
    (part,) = select_cells([table], [text])
    assert isinstance(part, Table)
    assert {cell.column for cell in part.all_cells} == {text}
    assert part.second_readings
    assert [column.label for column in part.columns] == [text]
    assert set(part.all_cells) <= set(table.all_cells)


def test_a_figure_keeps_the_panels_and_series_of_its_points() -> None:
    (part,) = select_cells([experiment("figure3")], ["mnistnet mdl", "FashionMNIST, PGD"])
    assert isinstance(part, Figure)
    (panel,) = part.panels
    assert panel.title == "FashionMNIST, PGD"
    assert [line.label for line in panel.series] == ["MNISTNet MDL"]
    assert len(panel.series[0].points) == 9


def test_average_ranks_and_statements_on_other_cells_are_left_out() -> None:
    whole = experiment("table1")
    (part,) = select_cells([whole], ["MDL"])
    assert any(cell.metric == "average_rank" for cell in whole.cells)
    assert not any(cell.metric == "average_rank" for cell in part.all_cells)
    assert part.footnotes[0].startswith("Only cells with 'MDL' in their labels are here")
    assert len(part.statements) < len(whole.statements)


def test_texts_that_no_cell_has_are_refused_with_labels_that_there_are() -> None:
    with pytest.raises(InputError, match=r"contain 'MDL' and 'Lenet'; rows are DO, FL, DB, MSD, \.\.\.; columns are"):
        select_cells([experiment("table1")], ["MDL", "Lenet"])
