"""Statements checked on stored results."""

from pathlib import Path

import pytest

from ctrobust.experiments import experiment, sweep_table
from ctrobust.reporting.statement_lines import measured_values, statement_lines
from ctrobust.specs import TrainSpec, spec_hash
from ctrobust.store import JobIndex, RunDirectory, Store

RESULTS = Path(__file__).parents[2] / "results"


def test_nothing_is_checked_before_anything_is_run(tmp_path: Path) -> None:
    (line,) = statement_lines(experiment("figure3", "laptop"), JobIndex(Store(tmp_path)))
    assert line == "Statements of the paper's text: 8 not run, 1 not about numbers."


def store_accuracy(store: Store, training: TrainSpec, accuracy: float) -> None:
    """Write a finished run with this accuracy."""
    record = RunDirectory(RESULTS / "fashion-dropout").read_record()
    results = record.results.model_copy(update={"accuracy": accuracy})
    run = store.directory(training)
    run.path.mkdir(parents=True)
    run.write_spec(training)
    run.write_record(record.model_copy(update={"spec": spec_hash(training), "results": results}))


@pytest.mark.parametrize(
    ("accuracies", "line"),
    [
        ((0.9, 0.7, 0.8, 0.6), "holds: "),
        ((0.9, 0.95, 0.8, 0.6), "does not hold (2 of 3 comparisons do): "),
        ((0.9, 0.7, 0.8), "holds where run (2 of 2 comparisons do, 1 not run): "),
    ],
)
def test_a_statement_is_checked_on_the_stored_runs(tmp_path: Path, accuracies: tuple[float, ...], line: str) -> None:
    figure, store = experiment("figure1", "laptop"), Store(tmp_path)
    statement = figure.statements[0]
    names = list(dict.fromkeys(name for check in statement.checks for name in check.cells()))
    assert len(names) == 4
    for name, accuracy in zip(names, accuracies, strict=False):
        store_accuracy(store, figure.names()[name].jobs[0].training, accuracy)
    values = measured_values(figure, JobIndex(store))
    assert [values[name] for name in names if name in values] == pytest.approx([100 * one for one in accuracies])
    assert f"{line}{statement.text}" in statement_lines(figure, JobIndex(store))


def test_several_statements_have_a_verb_in_the_plural(tmp_path: Path) -> None:
    figure, store = experiment("figure1", "laptop"), Store(tmp_path)
    for statement in figure.statements[:2]:
        for name in dict.fromkeys(name for check in statement.checks for name in check.cells()):
            store_accuracy(store, figure.names()[name].jobs[0].training, 0.9)
    assert statement_lines(figure, JobIndex(store))[0].startswith("Statements of the paper's text: 2 do not hold, ")


def test_values_of_other_tables_are_taken_where_a_statement_names_them(tmp_path: Path) -> None:
    table, other, store = experiment("table1", "laptop"), experiment("table2", "laptop"), Store(tmp_path)
    names = {name for one in table.statements for check in one.checks for name in check.cells()}
    name = next(name for name in sorted(names) if name.experiment == "table2")
    store_accuracy(store, other.names()[name].jobs[0].training, 0.5)
    assert measured_values(table, JobIndex(store))[name] == 50


def test_a_sweep_has_no_statements(tmp_path: Path) -> None:
    assert statement_lines(sweep_table("x", {}), JobIndex(Store(tmp_path))) == []
