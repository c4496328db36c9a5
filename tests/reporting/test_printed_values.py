"""Runs that are cells of the paper's tables are found by their specs."""

from pathlib import Path

from ctrobust.experiments import Table, experiment
from ctrobust.reporting.printed_values import measured_percent, printed_for_evaluation, printed_for_training
from ctrobust.reporting.report_runs import read_runs
from tests.reporting.made_runs import make_run

RESULTS = Path(__file__).parents[2] / "results"


def test_a_stored_run_is_found_in_the_tables_that_print_it() -> None:
    (run,) = read_runs([RESULTS / "fashion-mdl"]).runs
    found = {(one.table, one.cell): one for one in printed_for_training(run)}
    one = found["table 1", "MDL, MNISTNet Cyclic FM"]
    table = experiment("table1", "paper")
    assert isinstance(table, Table)
    cell = table.cell("MDL", "MNISTNet Cyclic FM")
    assert (one.value, one.preset, one.metric) == (cell.paper, "paper", "accuracy")
    assert run.record is not None
    assert measured_percent(one, run.record.results) == 100 * run.record.results.accuracy


def test_a_run_of_ones_own_is_not(tmp_path: Path) -> None:
    make_run(tmp_path / "a")
    (run,) = read_runs([tmp_path]).runs
    assert printed_for_training(run) == ()
    assert [printed_for_evaluation(run, "last", one.record) for one in run.evaluations] == [(), (), ()]


def test_an_evaluation_is_found_by_its_attack_and_images(tmp_path: Path) -> None:
    cell = next(one for one in experiment("table7", "laptop").cells if one.metric == "attack_success_rate")
    (job,) = cell.jobs
    fields = job.training.model_dump()
    run = make_run(tmp_path / "a", fields, attacks=[(job.attack, 0.5)], count=job.limit)  # type: ignore[union-attr,arg-type]
    (read,) = read_runs([run.path]).runs
    found = [printed_for_evaluation(read, "last", one.record) for one in read.evaluations if one.attack != "none"]
    assert cell.printed in [one.text for one in found[0]]
