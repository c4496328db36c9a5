"""Each listed disagreement of the paper with itself, recomputed from the printed values."""

import pytest

from ctrobust.experiments import Cell

from .planning import figure, printed_values, table


def value(name: str, row: str, column: str) -> float:
    return {(key.experiment, key.row, key.column): one for key, one in printed_values().items()}[name, row, column]


def possible(cell: Cell) -> bool:
    """Whether a percentage is a whole number of images."""
    images = 1000 if cell.column.endswith(("AA", "Square")) else 2000
    count = float(cell.printed or 0) * images / 100
    return abs(count - round(count)) < 1e-6


def test_four_printed_accuracies_are_impossible() -> None:
    attacked = [
        cell
        for name in ("table5", "table6", "table7", "table8", "table9")
        for cell in table(name).cells
        if cell.metric in ("robust_accuracy", "attack_success_rate")
    ]
    attacked += [cell for cell in figure("figure3").cells if cell.printed]
    assert [cell.printed for cell in attacked if not possible(cell)] == ["55.56", "56.33", "61.92", "62.84"]


def test_trades_is_faster_than_madry_though_its_attack_has_more_steps() -> None:
    trades = value("table5", "TRADES, beta 1, gamma 0", "Multistep Time") / 200
    madry = value("table6", "Madry-AT, gamma 0", "Multistep Time") / 50
    assert (round(trades, 2), round(madry, 2)) == (3.14, 3.59)


def test_tables_6_and_9_print_other_epochs_of_fast_at() -> None:
    assert table("table6").rows[0].headers[-1] == "40/50"
    assert table("table9").rows[0].headers[-1] == "40"


MODELS = {
    "Fast-AT": ("table6", "table9", "Fast-AT, gamma 0"),
    "Free-AT": ("table6", "table9", "Free-AT, gamma 0"),
    "Madry-AT": ("table6", "table9", "Madry-AT, gamma 0"),
    "TR": ("table5", "table8", "TRADES, beta 1, gamma 0"),
}


@pytest.mark.parametrize("model", MODELS)
def test_success_of_fgsm_is_100_minus_the_robust_accuracy(model: str) -> None:
    main, _, row = MODELS[model]
    assert value("table7", "FGSM CE", model) == pytest.approx(100 - value(main, row, "Multistep FGSM"))


def test_success_of_other_attacks_is_not() -> None:
    assert (value("table7", "PGD CE", "Madry-AT"), value(*MODELS["Madry-AT"][::2], "Multistep PGD")) == (48.65, 50.5)
    more = MODELS["Madry-AT"][1:]
    assert (value("table7", "PGD SCE", "Madry-AT"), value(*more, "Multistep PGD-SCE")) == (51.45, 49.7)
    assert (value("table7", "APGD CE", "TR"), value(*MODELS["TR"][1:], "Multistep APGD")) == (56.3, 43.6)


def baseline(row: str) -> str:
    if row.startswith("TRADES"):
        return f"TRADES, beta {6 if int(row.split(',')[1].split()[1]) >= 6 else 1}, gamma 0"
    return f"{row.split(',')[0]}, gamma 0"


@pytest.mark.parametrize(
    ("name", "lower", "bold"), [("table5", 9, 48), ("table6", 5, 44), ("table8", 12, 60), ("table9", 12, 55)]
)
def test_bold_values_that_are_not_higher(name: str, lower: int, bold: int) -> None:
    one = table(name)
    marked = [cell for cell in one.cells if cell.bold]
    not_higher = [
        cell for cell in marked if value(name, cell.row, cell.column) <= value(name, baseline(cell.row), cell.column)
    ]
    assert (len(not_higher), len(marked)) == (lower, bold)


def test_tables_8_and_9_have_no_times() -> None:
    for name in ("table8", "table9"):
        assert not [cell for cell in table(name).cells if cell.metric == "minutes"]


def test_comparable_accuracies_of_table_9_differ_by_at_most_2_3_points() -> None:
    one = table("table9")
    gaps = [
        abs(value("table9", cell.row, cell.column) - value("table9", baseline(cell.row), cell.column))
        for cell in one.cells
        if cell.bold and cell.column.endswith(("CW", "Square"))
    ]
    assert max(gaps) == pytest.approx(2.3)
