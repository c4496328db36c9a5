"""Finding runs by their spec."""

from pathlib import Path

import pytest

from ctrobust.specs import TrainSpec, canonical, describe, spec_hash, train_spec
from ctrobust.store import RunDirectory, Store, directory_name

MDL = train_spec({"method": "mdl"})


def test_a_run_is_found_in_the_directory_that_its_hash_names(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    assert store.find(MDL) is None
    run = store.directory(MDL)
    assert run.path == tmp_path / "runs" / f"digits-mnistnet-{spec_hash(MDL)}"
    run.write_spec(MDL)
    assert store.find(MDL) == run
    assert store.find(TrainSpec()) is None


def test_a_run_is_found_under_any_name_and_at_any_depth(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "deep" / "my run")
    run.write_spec(MDL)
    assert Store(tmp_path).find(MDL) == run


def test_read_only_directories_are_searched_after_the_root(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", (tmp_path / "results",))
    kept = RunDirectory(tmp_path / "results" / "mdl")
    kept.write_spec(MDL)
    assert store.find(MDL) == kept
    store.directory(MDL).write_spec(MDL)
    assert store.find(MDL) == store.directory(MDL)
    assert list(store.runs()) == [store.directory(MDL), kept]
    assert not store.directory(TrainSpec()).path.exists()  # reading creates nothing


@pytest.mark.parametrize("text", [canonical(MDL), describe(MDL)])
def test_both_forms_of_a_spec_file_are_read(tmp_path: Path, text: str) -> None:
    run = RunDirectory(tmp_path / "run")
    run.path.mkdir()
    run.spec_file.write_text(text)
    assert run.read_spec() == MDL
    assert Store(tmp_path).find(MDL) == run


def test_damaged_runs_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "spec.json").write_text("{")
    RunDirectory(tmp_path / "good").write_spec(MDL)
    assert Store(tmp_path).find(MDL) == RunDirectory(tmp_path / "good")
    assert Store(tmp_path / "absent").find(MDL) is None


def test_a_spec_file_shows_the_resolved_values_and_its_canonical_part_counts(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    run.write_spec(MDL)
    text = run.spec_file.read_text()
    assert '"batch_size": 16' in text
    assert '"weight_decay": 0.0005' in text
    run.spec_file.write_text(text.replace('"weight_decay": 0.0005', '"weight_decay": 7.0'))
    assert run.read_spec() == MDL


def test_a_finished_run_is_found_before_an_unfinished_one(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs", (tmp_path / "results",))
    store.directory(MDL).write_spec(MDL)
    finished = RunDirectory(tmp_path / "results" / "mdl")
    finished.write_spec(MDL)
    finished.record_file.write_text("{}")
    assert store.find(MDL) == finished
    assert store.find_writable(MDL) == store.directory(MDL)  # nothing is written below a read-only directory


def test_directory_names_are_readable() -> None:
    assert directory_name(TrainSpec(data="npz:a b/c.npz")).startswith("npz-a-b-c.npz-mnistnet-")
