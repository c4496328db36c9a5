"""The tables: their shapes, trainings, bold type and ranks."""

import pytest

from ctrobust.experiments import Cell, MeanSpread, Table, average_ranks
from ctrobust.specs import required_training, spec_hash

from .planning import table

SHAPES = {
    "table1": (8, 13, 13), "table2": (6, 12, 36), "table3": (10, 4, 2), "table4": (10, 4, 4), "table5": (18, 10, 48),
    "table6": (28, 10, 44), "table7": (15, 5, 16), "table8": (18, 10, 60), "table9": (28, 10, 55),
}  # fmt: skip
"""Table -> rows, columns, bold cells."""


def trainings(*tables: Table) -> set[str]:
    return {spec_hash(required_training(job)) for one in tables for cell in one.all_cells for job in cell.jobs}


def value(cell: Cell) -> float:
    paper = cell.paper
    assert paper is not None
    return paper.value if isinstance(paper, MeanSpread) else paper


@pytest.mark.parametrize(("name", "shape"), SHAPES.items())
def test_shapes(name: str, shape: tuple[int, int, int]) -> None:
    one = table(name)
    assert (len(one.rows), len(one.columns), sum(cell.bold for cell in one.cells)) == shape
    assert [(cell.row, cell.column) for cell in one.cells] == [
        (row.label, column.label) for row in one.rows for column in one.columns
    ]
    assert all(cell.printed for cell in one.cells)
    assert all(len(row.headers) == len(one.row_headers) for row in one.rows)


@pytest.mark.parametrize(
    ("name", "count"),
    [("table1", 96), ("table2", 72), ("table3", 60), ("table5", 36), ("table6", 56), ("table7", 5)],
)
def test_unique_trainings(name: str, count: int) -> None:
    assert len(trainings(table(name))) == count


def test_shared_trainings() -> None:
    assert trainings(table("table4")) <= trainings(table("table1"), table("table2"))
    assert trainings(table("table8")) == trainings(table("table5"))
    assert trainings(table("table9")) == trainings(table("table6"))
    assert len(trainings(table("table7")) - trainings(table("table5"), table("table6"))) == 1
    assert len(trainings(table("table3")) - trainings(table("table1"), table("table2"))) == 40


def test_average_ranks_are_those_printed() -> None:
    one = table("table1")
    rows = [[value(one.cell(row.label, column.label)) for column in one.columns[:-1]] for row in one.rows]
    printed = [value(one.cell(row.label, "Avg. rank")) for row in one.rows]
    assert average_ranks(rows) == pytest.approx(printed, abs=0.005)


@pytest.mark.parametrize("name", ["table1", "table2", "table3", "table4", "table7"])
def test_bold_cells_are_the_best(name: str) -> None:
    """The one exception is a tie in table 2, of which the paper prints one value in bold."""
    one, exceptions = table(name), []
    for column in one.columns:
        for group in {row.group for row in one.rows}:
            cells = [one.cell(row.label, column.label) for row in one.rows if row.group == group]
            bold = [cell.row for cell in cells if cell.bold]
            if column.better is None:
                assert bold == []
                continue
            best = (max if column.better == "higher" else min)(map(value, cells))
            if bold != [cell.row for cell in cells if value(cell) == best]:
                exceptions.append((group, column.label, bold))
    assert exceptions == ([("LS", "MNISTNet Multistep M", ["LS+MDL"])] if name == "table2" else [])


@pytest.mark.parametrize("name", ["table5", "table6", "table8", "table9"])
def test_bold_rows_are_whole_halves_without_times(name: str) -> None:
    one = table(name)
    assert one.bold_rule == "chosen rows"
    for row in one.rows:
        for schedule in ("Multistep", "Cyclic"):
            columns = [column for column in one.columns if column.headers[0] == schedule and column.better]
            assert len({one.cell(row.label, column.label).bold for column in columns}) == 1
    assert not any(cell.bold for cell in one.cells if cell.metric == "minutes")


def test_tables_of_more_attacks_mark_the_same_rows() -> None:
    for first, second in (("table5", "table8"), ("table6", "table9")):
        marked = [
            {(cell.row, cell.column.split()[0]) for cell in table(name).cells if cell.bold} for name in (first, second)
        ]
        assert marked[0] == marked[1]
        assert [row.label for row in table(first).rows] == [row.label for row in table(second).rows]


def test_epochs_of_longer_trainings_fit_their_times() -> None:
    """Minutes per epoch stay within a tenth of those of the method without CTR."""
    one = table("table6")
    for row in one.rows:
        for schedule in ("Multistep", "Cyclic"):
            pace = []
            for label in (row.label, f"{row.group}, gamma 0"):
                cell = one.cell(label, f"{schedule} Time")
                pace.append(value(cell) / cell.jobs[0].training.epochs)
            assert pace[0] == pytest.approx(pace[1], rel=0.1)


def test_table_7_has_both_readings_of_the_step() -> None:
    one = table("table7")
    printed = {cell.row: cell for cell in one.cells if cell.column == "NT" and cell.row.startswith("PGD")}
    assert len(one.second_readings) == len(printed) == 5
    for cell in one.second_readings:
        first = printed[cell.row.removesuffix(", steps of eps/4")]
        assert cell.printed == first.printed
        assert cell.jobs != first.jobs
