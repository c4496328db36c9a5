"""Finding runs by their spec."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ctrobust.errors import InUseError, RunError
from ctrobust.specs import TrainingJob, TrainSpec, canonical, describe, spec_hash, train_spec
from ctrobust.store import JobIndex, RunDirectory, Store, directory_name

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


@pytest.mark.parametrize("content", ["{", "[]", "[" * 100_000])
def test_damaged_runs_are_passed_over(tmp_path: Path, content: str) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "spec.json").write_text(content)
    RunDirectory(tmp_path / "good").write_spec(MDL)
    assert Store(tmp_path).find(MDL) == RunDirectory(tmp_path / "good")
    assert Store(tmp_path / "absent").find(MDL) is None


def test_a_spec_file_shows_the_resolved_values_which_must_be_those_of_its_canonical_part(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    run.write_spec(MDL)
    text = run.spec_file.read_text()
    assert '"batch_size": 16' in text
    assert '"weight_decay": 0.0005' in text
    run.spec_file.write_text(text.replace('"weight_decay": 0.0005', '"weight_decay": 7.0'))
    with pytest.raises(RunError, match=r"weight_decay is shown as 7\.0, and is 0\.0005; restore the file"):
        run.read_spec()


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


def test_the_folders_of_a_run_are_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, inner = RunDirectory(tmp_path / "a"), RunDirectory(tmp_path / "a" / "b")
    for one in (run, inner):
        one.write_spec(MDL)
        for name in ("artifacts", "checkpoint", "outcomes"):
            (one.path / name).mkdir()
    listed: list[str] = []
    scan = os.scandir

    def scandir(path: str) -> Any:
        listed.append(path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert list(Store(tmp_path).runs()) == [run, inner]
    assert listed == [str(path) for path in (tmp_path, run.path, inner.path)]


def test_a_spec_file_is_read_again_only_if_it_changed(tmp_path: Path) -> None:
    store, run = Store(tmp_path), RunDirectory(tmp_path / "run")
    assert store.hash_of(run) is None
    run.write_spec(MDL)
    assert store.hash_of(run) == spec_hash(MDL)
    run.write_spec(TrainSpec())
    assert store.hash_of(run) == spec_hash(TrainSpec())


def test_a_job_is_locked_for_one_process(tmp_path: Path) -> None:
    job, other = TrainingJob(training=MDL), TrainingJob(training=TrainSpec())
    with Store(tmp_path).locked(job):
        with pytest.raises(InUseError, match=spec_hash(job)), Store(tmp_path).locked(job):
            pass
        with Store(tmp_path).locked(other):
            pass
    with Store(tmp_path).locked(job):
        pass
    assert list((tmp_path / ".locks").iterdir()) == []


def test_a_run_in_a_read_only_directory_below_the_root_is_not_written_to(tmp_path: Path) -> None:
    RunDirectory(tmp_path / "results" / "mdl").write_spec(MDL)
    store = Store(tmp_path, (tmp_path / "results",))
    assert store.find_writable(MDL) == store.directory(MDL)


def test_a_store_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for root in (tmp_path / "file", tmp_path / "file" / "runs"):
        with pytest.raises(RunError, match=f"cannot write to the store {root}"):
            Store(root).check_writable()
    Store(tmp_path / "new" / "runs").check_writable()
    assert list((tmp_path / "new" / "runs").iterdir()) == []


WRITER = """
import sys
from ctrobust.specs import TrainSpec
from ctrobust.store import Store
store = Store(sys.argv[1])
for seed in range(int(sys.argv[2]), 120, 2):
    store.directory(TrainSpec(seed=seed)).write_spec(TrainSpec(seed=seed))
"""


def test_a_store_is_read_while_several_processes_write(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    writers = [subprocess.Popen([*command, first]) for first in ("0", "1")]
    expected = {spec_hash(TrainSpec(seed=seed)) for seed in range(120)}
    store = Store(tmp_path)
    while any(writer.poll() is None for writer in writers):
        assert {store.hash_of(run) for run in store.runs()} <= expected  # no file is read that is half written
    assert [writer.returncode for writer in writers] == [0, 0]
    assert {store.hash_of(run) for run in store.runs()} == expected


@pytest.mark.slow
def test_ten_thousand_runs_are_listed_in_seconds(tmp_path: Path) -> None:
    specs = [TrainSpec(seed=seed) for seed in range(10_000)]
    for spec in specs:
        run = Store(tmp_path).directory(spec)
        run.outcomes_folder.mkdir(parents=True)
        run.spec_file.write_text(describe(spec))
        run.record_file.write_text("{}")
    started = time.process_time()  # of the processor, so that a busy machine does not matter
    assert JobIndex(Store(tmp_path)).missing(TrainingJob(training=spec) for spec in specs[:3]) == []
    assert time.process_time() - started < 4  # 0.6 s where benchmarks/output/store.txt was measured
