"""Notes below a table: preset, data, seeds and versions."""

import json
import shutil
from pathlib import Path

from ctrobust.experiments import Cell, Figure, Panel, Point, Series, experiment
from ctrobust.reporting.footers import provenance
from ctrobust.specs import TrainingJob
from ctrobust.store import JobIndex, RunDirectory, Store
from tests.reporting.stored import COMMITTED, RESULTS


def figure_of(*runs: str) -> Figure:
    jobs = tuple(TrainingJob(training=RunDirectory(RESULTS / run).read_spec()) for run in runs)
    point = Point(0.0, Cell("", "", "accuracy", jobs))
    return Figure("figure9", "laptop", "", (Panel("", "", "", (Series("", (point,)),)),))


def test_data_seeds_and_versions_come_from_the_records() -> None:
    data, seeds, versions = provenance(
        figure_of("fashion-mdl", "cifar-fast-g0", "cifar-fast-g0-seed2"), JobIndex(COMMITTED)
    )
    assert data == (
        "Data: cifar10, 50,000 training and 10,000 test images, not verified as the published files in their order; "
        "fashion-mnist, 60,000 training and 10,000 test images, the published files."
    )
    assert seeds == "Seeds: 0, 2."
    torch = RunDirectory(RESULTS / "fashion-mdl").read_record().environment["versions"]["torch"]
    assert f"torch {torch}" in versions


def test_another_number_of_images_is_reported(tmp_path: Path) -> None:
    shutil.copytree(
        RESULTS / "fashion-mdl", tmp_path / "run", ignore=shutil.ignore_patterns("outcomes", "*.safetensors")
    )
    file = tmp_path / "run" / "record.json"
    record = json.loads(file.read_text())
    record["data"]["train"] = 10_000
    file.write_text(json.dumps(record))
    assert "10,000 training and" in provenance(figure_of("fashion-mdl"), JobIndex(Store(tmp_path)))[0]


def test_a_table_of_which_nothing_is_stored_says_so(tmp_path: Path) -> None:
    assert provenance(experiment("table5", "laptop"), JobIndex(Store(tmp_path))) == ["Nothing of it is stored yet."]
