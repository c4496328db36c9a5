"""What the text states, on hand-made and on printed values."""

import pytest

from ctrobust.experiments import EXPERIMENTS, PRESETS, CellName, Check, Statement, disagreements
from ctrobust.experiments.disagreements import DISAGREEMENTS
from ctrobust.experiments.statements import (
    Above,
    FasterFall,
    Gains,
    Monotone,
    MostAbove,
    RisesThenFalls,
    Similar,
    WidensFrom,
    above_all,
)

from .planning import planned, printed_values

A, B, C, D = (CellName("t", row, "x") for row in "abcd")


@pytest.mark.parametrize(
    ("check", "values", "holds"),
    [
        (Above(A, B), (2, 1), True),
        (Above(A, B), (1, 1), False),
        (MostAbove(((A, B), (B, A), (A, C))), (2, 1, 1), True),
        (MostAbove(((A, B), (B, A))), (2, 1), False),
        (Gains((A, B), (C, D), 1, 2), (5, 4, 3, 2), True),
        (Gains((A, B), (C, D), 1, 2), (5, 3, 3, 2), False),
        (Gains((A,), (B,), -0.2, -0.2), (1, 2), True),
        (Monotone((A, B, C)), (1, 2, 3), True),
        (Monotone((A, B, C)), (1, 2, 2), False),
        (Monotone((A, B, C), falling=True), (3, 2, 1), True),
        (RisesThenFalls((A, B, C)), (1, 2, 1), True),
        (RisesThenFalls((A, B, C)), (3, 2, 1), False),
        (RisesThenFalls((A, B, C)), (1, 2, 3), False),
        (FasterFall((A, B), (C, D), (2, 1)), (9, 7, 8, 7), True),
        (FasterFall((A, B), (C, D), (2, 1)), (9, 8, 8, 6), False),
        (WidensFrom((A, B), (C, D)), (9, 8, 8, 6), True),
        (WidensFrom((A, B), (C, D)), (9, 6, 8, 6), False),
        (Similar((A, B, C), 1.0), (1, 2, 1.5), True),
        (Similar((A, B, C), 1.0), (1, 2.5, 1.5), False),
    ],
)
def test_checks(check: Check, values: tuple[float, ...], holds: bool) -> None:
    known = dict(zip((A, B, C, D), values, strict=False))
    assert check.holds(known.__getitem__) is holds
    assert set(check.cells()) == set(known)


def test_a_printed_difference_must_be_exact_to_its_digits() -> None:
    gains = Gains((A,), (B,), 0.2, 0.2)
    assert gains.as_printed({A: 93.7, B: 93.5}.__getitem__)
    assert not gains.as_printed({A: 93.7, B: 93.49}.__getitem__)
    assert not FasterFall((A, B), (A, A), (1.0, 0.01)).as_printed({A: 2.0, B: 1.0}.__getitem__)


def test_a_statement_holds_if_all_its_checks_do() -> None:
    values = {A: 3.0, B: 2.0, C: 1.0}
    assert Statement("", above_all(A, [A, B, C])).holds(values.__getitem__) is True
    assert Statement("", above_all(B, [A, C])).holds(values.__getitem__) is False
    assert Statement("").holds(values.__getitem__) is None


def statements() -> list[tuple[str, Statement]]:
    return [(name, statement) for name in EXPERIMENTS for statement in planned(name).statements]


def test_every_experiment_has_statements_with_unique_texts() -> None:
    assert {name for name, _ in statements()} == set(EXPERIMENTS)
    assert len({(name, one.text) for name, one in statements()}) == len(statements())


@pytest.mark.parametrize("preset", PRESETS)
def test_statements_name_cells_that_are_planned(preset: str) -> None:
    known = {key for name in EXPERIMENTS for key in planned(name, preset).names()}
    for name in EXPERIMENTS:
        for statement in planned(name, preset).statements:
            assert {cell for check in statement.checks for cell in check.cells()} <= known


def test_printed_values_agree_with_the_text_where_they_are_listed_to() -> None:
    values = printed_values()
    wrong = [
        (name, one.text)
        for name, one in statements()
        if one.checks and one.agrees is not None and one.agrees_with_print(values.__getitem__) is not one.agrees
    ]
    assert wrong == []


def test_a_disagreement_is_explained_and_figures_have_no_printed_values() -> None:
    for name, one in statements():
        assert one.remark or one.agrees is not False
        if name.startswith("figure"):
            assert one.agrees is None or not one.checks


def test_disagreements_join_the_listed_ones_and_those_of_statements() -> None:
    found = disagreements(planned(name) for name in EXPERIMENTS)
    contradicted = [one for _, one in statements() if one.agrees is False]
    assert len(found) == len(DISAGREEMENTS) + len(contradicted)
    assert set(DISAGREEMENTS) <= set(found)
