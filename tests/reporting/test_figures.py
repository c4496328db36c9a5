"""Figures as Vega-Lite, PNG and SVG."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ctrobust.errors import RunError
from ctrobust.experiments import Figure, experiment
from ctrobust.reporting.figures import curve_style, figure_chart, write_figures
from ctrobust.specs import EmbeddingJob, spec_hash
from ctrobust.store import JobIndex, RunDirectory, Store, embedding_file, write_arrays
from tests.reporting.stored import COMMITTED, RESULTS, stored_figure


def figure(name: str) -> Figure:
    found = experiment(name, "laptop")
    assert isinstance(found, Figure)
    return found


@pytest.mark.parametrize("number", range(1, 8))
def test_every_figure_has_a_chart_with_all_its_panels(number: int) -> None:
    one = figure(f"figure{number}")
    spec = figure_chart(one, JobIndex(COMMITTED))
    titles = [panel["title"] for panel in spec["concat"]]
    assert [title["text"] if isinstance(title, dict) else title for title in titles] == [p.title for p in one.panels]
    assert spec["title"]["subtitle"][0].startswith("Preset laptop.")


def test_png_svg_and_json_are_written_and_json_is_the_same_each_time(tmp_path: Path) -> None:
    files = write_figures([experiment("table1"), stored_figure()], JobIndex(COMMITTED), tmp_path / "a")
    assert [file.name for file in files] == ["figure9.json", "figure9.svg", "figure9.png"]
    assert (tmp_path / "a" / "figure9.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "a" / "figure9.svg").read_text().startswith("<svg")
    write_figures([stored_figure()], JobIndex(Store(RESULTS)), tmp_path / "b")
    content = (tmp_path / "a" / "figure9.json").read_bytes()
    assert content == (tmp_path / "b" / "figure9.json").read_bytes()
    assert str(RESULTS).encode() not in content
    assert json.loads(content)["$schema"].startswith("https://vega.github.io/schema/vega-lite/")


def test_an_embedding_in_the_store_is_drawn(tmp_path: Path) -> None:
    one = figure("figure2")
    (job,) = one.panels[0].series[0].points[0].cell.jobs
    assert isinstance(job, EmbeddingJob)
    run = RunDirectory(tmp_path / "run")
    run.write_spec(job.training)
    record = RunDirectory(RESULTS / "cifar-fast-g0").read_record()
    run.write_record(record.model_copy(update={"spec": spec_hash(job.training)}))
    arrays: dict[str, NDArray[Any]] = {
        "points": np.zeros((3, 2), np.float32),
        "logits": np.eye(3, 10, dtype=np.float32),
        "labels": np.arange(3),
    }
    write_arrays(embedding_file(run, job), arrays)
    first, second, *_ = figure_chart(one, JobIndex(Store(tmp_path)))["concat"]
    assert first["title"]["subtitle"] == "3 images, 0 misclassified (×)"
    assert second["title"] == one.panels[1].title


def test_series_are_named_by_method_and_network() -> None:
    style = curve_style(figure("figure3"))
    assert (style.colour_names, style.dash_names) == (["DO", "MSD", "MDL"], ["MNISTNet", "VGG16", "ResNet50"])
    assert curve_style(figure("figure4")).dash_names == []
    assert curve_style(figure("figure1")).dash_names == ["Cyclic", "Multistep"]
    assert curve_style(figure("figure7")).colour_title == "Model"


def test_a_directory_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot write"):
        write_figures([stored_figure()], JobIndex(COMMITTED), tmp_path / "file")
