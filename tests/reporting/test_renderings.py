"""Tables of the paper, rendered from stored results."""

import csv
import io
from pathlib import Path

import pytest

from ctrobust.errors import InputError
from ctrobust.experiments import EXPERIMENTS, PRESETS, experiment
from ctrobust.reporting import RENDERERS, cell_values, render
from ctrobust.store import JobIndex, RunDirectory, Store

RESULTS = Path(__file__).parents[2] / "results"
COMMITTED = Store("absent", (RESULTS,))


def rows(name: str, preset: str = "laptop") -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(render(experiment(name, preset), JobIndex(COMMITTED), "csv"))))


def test_a_stored_run_gives_its_cell_value_interval_and_difference() -> None:
    (row,) = [row for row in rows("table1") if (row["row"], row["column"]) == ("MDL", "MNISTNet Cyclic FM")]
    results = RunDirectory(RESULTS / "fashion-mdl").read_record().results
    assert float(row["value"]) == pytest.approx(100 * results.accuracy, abs=1e-3)
    assert float(row["low"]) == pytest.approx(100 * results.accuracy_interval[0], abs=1e-3)
    assert float(row["difference"]) == pytest.approx(100 * results.accuracy - float(row["paper"]), abs=1e-3)
    assert (row["jobs_done"], row["jobs"], row["remark"]) == ("1", "1", "")


def test_cells_that_were_not_run_say_so() -> None:
    found = rows("table5")
    assert {row["remark"] for row in found} == {"not run"}
    assert {row["value"] for row in found} == {""}
    assert all(row["paper"] for row in found)


@pytest.mark.parametrize("form", RENDERERS)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_renders_in_every_form(name: str, form: str) -> None:
    text = render(experiment(name, "laptop"), JobIndex(COMMITTED), form)
    assert text.endswith("\n")
    assert "None" not in text
    assert "nan" not in text.split()


@pytest.mark.parametrize("preset", PRESETS)
def test_a_rendering_names_its_preset_and_how_much_was_run(preset: str) -> None:
    text = render(experiment("table1", preset), JobIndex(COMMITTED), "markdown")
    done = sum(value.value is not None for value in cell_values(experiment("table1", preset), JobIndex(COMMITTED)))
    assert f"Preset {preset}; {done} of 104 cells have a value." in text


def test_a_rendering_depends_on_the_store_alone() -> None:
    table = experiment("table1", "laptop")
    assert render(table, JobIndex(COMMITTED), "csv") == render(table, JobIndex(Store(RESULTS)), "csv")


def test_latex_escapes_and_bolds() -> None:
    text = render(experiment("table1", "laptop"), JobIndex(COMMITTED), "latex")
    assert r"\begin{tabular}{lrrrrrrrrrrrrr}" in text
    assert text.count(r"\\") == 9


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(InputError, match="unknown rendering 'html'; known: terminal, markdown, csv, latex"):
        render(experiment("table1"), JobIndex(COMMITTED), "html")
