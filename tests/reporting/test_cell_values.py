"""Values of cells from stored records and outcomes."""

import numpy as np
import pytest

from ctrobust.experiments import Cell, Figure, Panel, Point, Series, experiment
from ctrobust.reporting import CellValue, cell_values
from ctrobust.reporting.cell_values import difference
from ctrobust.specs import TrainingJob
from ctrobust.store import JobIndex, RunDirectory
from tests.reporting.stored import COMMITTED, RESULTS, evaluation_job, stored_figure


def one_cell(cell: Cell) -> CellValue:
    figure = Figure("figure9", "laptop", "", (Panel("", "", "", (Series("", (Point(0.0, cell),)),)),))
    return cell_values(figure, JobIndex(COMMITTED))[0]


def test_success_rate_is_the_rest_of_robust_accuracy() -> None:
    job = evaluation_job("fashion-mdl", "pgd:eps=8/255")
    robust = one_cell(Cell("", "", "robust_accuracy", (job,)))
    success = one_cell(Cell("", "", "attack_success_rate", (job,)))
    assert robust.value is not None
    assert success.value is not None
    assert robust.value + success.value == pytest.approx(100)
    assert robust.low is not None
    assert success.high is not None
    assert robust.low + success.high == pytest.approx(100)


def test_wrong_categories_are_counted_below_the_cells_threshold() -> None:
    job = evaluation_job("fashion-mdl", "pgd:eps=8/255")
    stored = JobIndex(COMMITTED).evaluation(job)
    assert stored is not None
    found = one_cell(Cell("", "", "wrong_below", (job,), threshold=0.02))
    outcome = stored.evaluation
    p = outcome.clean_probabilities.copy()
    p[np.arange(len(p)), outcome.labels] = 1
    assert found.value == int((p < np.float32(0.02)).sum())


def test_several_seeds_give_their_mean_and_spread() -> None:
    specs = [RunDirectory(RESULTS / f"cifar-fast-g0{name}").read_spec() for name in ("", "-seed1", "-seed2")]
    found = one_cell(Cell("", "", "accuracy", tuple(TrainingJob(training=spec) for spec in specs)))
    runs = [RunDirectory(RESULTS / f"cifar-fast-g0{name}") for name in ("", "-seed1", "-seed2")]
    accuracies = [100 * run.read_record().results.accuracy for run in runs]
    assert found.value == pytest.approx(np.mean(accuracies))
    assert found.spread == pytest.approx(np.std(accuracies, ddof=1))
    assert (found.low, found.jobs_done, found.jobs) == (None, 3, 3)


def test_a_job_whose_training_failed_has_failed() -> None:
    figure = stored_figure()
    training = TrainingJob(training=figure.panels[1].series[0].points[0].cell.jobs[0].training)
    remarks = [value.remark for value in cell_values(figure, JobIndex(COMMITTED), {training})]
    assert remarks == ["", "", "", "", "failed", "failed", "not run", "not run"]


def test_average_ranks_are_over_complete_columns() -> None:
    table = experiment("table1", "laptop")
    ranks = [value for cell, value in zip(table.cells, cell_values(table, JobIndex(COMMITTED)), strict=True)
             if cell.metric == "average_rank"]  # fmt: skip
    assert {(value.value, value.remark) for value in ranks} == {(None, "1 of 12 columns")}


def test_times_have_no_difference() -> None:
    assert difference(CellValue(10.0), Cell("", "", "minutes", (), "9.1")) is None
    assert difference(CellValue(10.0), Cell("", "", "accuracy", (), "9.5+0.1")) == 0.5
