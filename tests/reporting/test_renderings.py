"""Tables of the paper, rendered from stored results."""

import csv
import io
from dataclasses import replace

import pytest

from ctrobust.errors import InputError
from ctrobust.experiments import EXPERIMENTS, PRESETS, experiment
from ctrobust.reporting import RENDERERS, cell_values, render
from ctrobust.store import JobIndex, RunDirectory, Store
from tests.reporting.stored import COMMITTED, RESULTS, stored_figure


def rows(name: str, preset: str = "laptop") -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(render(experiment(name, preset), JobIndex(COMMITTED), "csv"))))


def test_a_stored_run_gives_its_cell_value_interval_and_difference() -> None:
    (row,) = [row for row in rows("table1") if (row["row"], row["column"]) == ("MDL", "MNISTNet Cyclic FM")]
    results = RunDirectory(RESULTS / "fashion-mdl").read_record().results
    assert float(row["value"]) == pytest.approx(100 * results.accuracy, abs=1e-3)
    assert float(row["low"]) == pytest.approx(100 * results.accuracy_interval[0], abs=1e-3)
    assert float(row["difference"]) == pytest.approx(100 * results.accuracy - float(row["paper"]), abs=1e-3)
    assert (row["jobs_done"], row["jobs"], row["remark"]) == ("1", "1", "")
    assert (row["bold"], row["paper_bold"], row["experiment"], row["preset"]) == ("0", "1", "table1", "laptop")


def test_cells_that_were_not_run_say_so() -> None:
    found = rows("table5")
    assert {row["remark"] for row in found} == {"not run"}
    assert {row["value"] for row in found} == {""}
    assert all(row["paper"] for row in found)


def test_csv_has_a_printed_mean_and_spread_as_numbers() -> None:
    row = next(row for row in rows("table3") if (row["row"], row["column"]) == ("DO", "FashionMNIST Accs"))
    assert (row["paper"], row["paper_spread"], row["remark"]) == ("93.38", "0.13", "1 of 3 runs")


@pytest.mark.parametrize("form", RENDERERS)
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_renders_in_every_form(name: str, form: str) -> None:
    text = render(experiment(name, "laptop"), JobIndex(COMMITTED), form)
    assert text.endswith("\n")
    assert "None" not in text
    assert "nan" not in text.split()
    if form == "terminal":
        assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("preset", PRESETS)
def test_a_rendering_names_its_preset_and_how_much_was_run(preset: str) -> None:
    text = render(experiment("table1", preset), JobIndex(COMMITTED), "markdown")
    done = sum(value.value is not None for value in cell_values(experiment("table1", preset), JobIndex(COMMITTED)))
    assert f"Preset {preset}; {done} of 104 cells have a value." in text


def test_a_rendering_depends_on_the_store_alone() -> None:
    table = experiment("table1", "laptop")
    for form in RENDERERS:
        assert render(table, JobIndex(COMMITTED), form) == render(table, JobIndex(Store(RESULTS)), form)
        assert str(RESULTS) not in render(table, JobIndex(COMMITTED), form)


def test_markdown_has_our_value_with_its_interval_the_printed_value_and_the_difference() -> None:
    text = render(experiment("table1", "laptop"), JobIndex(COMMITTED), "markdown")
    results = RunDirectory(RESULTS / "fashion-mdl").read_record().results
    low, high = results.accuracy_interval
    ours = f"{100 * results.accuracy:.2f} [{100 * low:.1f}, {100 * high:.1f}]"
    row = next(line for line in text.splitlines() if line.startswith("| MDL |"))
    assert f"| {ours} (**93.53**, {100 * results.accuracy - 93.53:+.2f}) |" in row


def test_times_are_labelled_and_not_subtracted() -> None:
    text = render(experiment("table3", "laptop"), JobIndex(COMMITTED), "markdown")
    assert "FashionMNIST Time (CPU min; paper GPU min)" in text
    assert "minutes of processor time here (CPU min) and wall-clock minutes on GPUs" in text


def test_the_points_of_a_figure_are_one_table_a_panel() -> None:
    text = render(stored_figure(), JobIndex(COMMITTED), "terminal")
    assert "Preset laptop; 4 of 8 cells have a value." in text
    stored, absent = text.split("absent")[:2]
    assert "not run" not in stored
    assert "not run" in absent


def test_cells_of_failed_jobs_are_marked() -> None:
    figure = stored_figure()
    failed = figure.panels[1].series[0].points[0].cell.jobs
    text = render(figure, JobIndex(COMMITTED), "csv", failed=failed)
    assert [row["remark"] for row in csv.DictReader(io.StringIO(text))].count("failed") == 1
    assert "4 of 8 cells have a value; 1 failed." in render(figure, JobIndex(COMMITTED), "markdown", failed=failed)


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(InputError, match="unknown rendering 'html'; known: terminal, markdown, csv, latex"):
        render(experiment("table1"), JobIndex(COMMITTED), "html")


def test_a_bar_in_a_label_does_not_end_a_markdown_cell() -> None:
    figure = stored_figure()
    panel = replace(figure.panels[0], x_title="a|b")
    text = render(replace(figure, panels=(panel,)), JobIndex(COMMITTED), "markdown")
    assert r"| a\|b |" in text
