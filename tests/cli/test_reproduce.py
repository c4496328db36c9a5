"""`ctrobust reproduce`."""

import csv
import io
import json
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ctrobust.experiments import experiment
from ctrobust.store import Store
from tests.cli.command import COMMAND, Inside, Terminal, ctrobust, plain
from tests.execution.worker_processes import WrittenOnce

RESULTS = Path(__file__).parents[2] / "results"


def test_a_dry_run_prints_the_plan_and_runs_nothing(inside: Inside, tmp_path: Path) -> None:
    done = inside(f"reproduce table1 --dry-run --store {tmp_path / 'runs'} --results {RESULTS}")
    assert done.code == 0
    assert "cells: 104" in done.out
    assert "trainings: 96, of which" in done.out
    assert not (tmp_path / "runs").exists()


def test_all_names_every_experiment_and_each_is_planned_once(inside: Inside, tmp_path: Path) -> None:
    plan = f"--preset smoke --dry-run --store {tmp_path}"
    assert inside(f"reproduce all {plan}").out == inside(f"reproduce all table1 {plan}").out
    assert "cells: 104" in inside(f"reproduce table1 table1 {plan}").out
    wrong = inside(f"reproduce all tabel1 {plan}")
    assert wrong.code == 2
    assert "unknown experiment 'tabel1'; did you mean 'table1'?" in wrong.err


def test_a_part_of_a_table_is_planned_by_its_labels(inside: Inside, tmp_path: Path) -> None:
    done = inside(f"reproduce table1 --dry-run --store {tmp_path} --only MDL-PCC --only", "mnistnet cyclic")
    assert "cells: 2\n" in done.out
    assert "trainings: 2, of which 2 are not stored" in done.out


def test_jobs_of_other_cells_are_not_run_and_their_cells_are_empty(inside: Inside, tmp_path: Path) -> None:
    done = inside(f"reproduce table4 --preset smoke --only DO --only FMNIST --render csv --store {tmp_path}")
    assert done.code == 0
    values = {(row["row"], row["column"]): row["value"] for row in csv.DictReader(io.StringIO(done.out))}
    filled = {labels for labels, value in values.items() if value}
    assert ("DO", "FMNIST") in filled
    assert not any(row == "MDL" for row, _ in filled)


def test_the_plan_as_json(inside: Inside, tmp_path: Path) -> None:
    done = inside(f"reproduce table7 table3 --preset paper --dry-run --json --store {tmp_path}")
    plan = json.loads(done.out)
    assert set(plan) == {"cells", "jobs"}
    assert {"row", "column", "paper", "jobs"} <= set(plan["cells"][0])
    papers = [cell["paper"] for cell in plan["cells"] if cell["experiment"] == "table3"]
    assert any(isinstance(paper, dict) and set(paper) == {"value", "spread"} for paper in papers)
    assert {job["hash"] for job in plan["jobs"]} >= {one for cell in plan["cells"] for one in cell["jobs"]}


def test_stored_results_are_rendered_without_running(inside: Inside, tmp_path: Path) -> None:
    done = inside(f"reproduce table1 --no-run --render csv --store {tmp_path} --results {RESULTS}")
    assert done.code == 0
    line = next(line for line in done.out.splitlines() if line.startswith("MDL,MNISTNet Cyclic FM"))
    assert line.split(",")[3] == "92.79"


def test_wrong_names_are_explained(inside: Inside, tmp_path: Path) -> None:
    for command, message in [
        ("reproduce tabel1", "unknown experiment 'tabel1'; did you mean 'table1'?"),
        ("reproduce table1 --preset labtop", "unknown preset 'labtop'; did you mean 'laptop'?"),
        ("reproduce table1 --render pdf", "--render is one of terminal, markdown, csv, latex"),
        ("reproduce table1 --json", "--json is for --dry-run"),
        ("reproduce table1 --only MNISTNot", "no cell's row and column contain 'MNISTNot'; rows are DO, FL, DB, MSD"),
        ("reproduce table1 --results nowhere", "--results nowhere: there is no such directory"),
        ("reproduce table7 --preset smoke --executor slurm", "--executor is one of local, ray; got slurm"),
        ("reproduce table7 --preset smoke --address auto", "--address is for --executor ray"),
        ("reproduce table7 --preset smoke --executor ray --address 127.0.0.1:1", "cannot connect to the Ray cluster"),
    ]:
        done = inside(f"{command} --store {tmp_path}")
        assert done.code == 2, command
        assert message in done.err


def test_a_store_that_cannot_be_written_is_explained(inside: Inside, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = inside(f"reproduce table7 --preset smoke --store {tmp_path / 'file'}")
    assert done.code == 5
    assert f"cannot write to the store {tmp_path / 'file'}" in done.err


@pytest.mark.slow
def test_a_failed_job_is_named_with_its_log_and_cells_and_is_the_only_one_run_again(
    environment: dict[str, str], tmp_path: Path
) -> None:
    command = "reproduce figure7 --preset smoke --workers 2 --render csv"
    broken = Store(tmp_path / "runs").directory(experiment("figure7", "smoke").all_cells[0].jobs[0].training)
    broken.path.mkdir(parents=True)
    broken.spec_file.write_text("{")
    done = ctrobust(command, tmp_path, environment)
    assert done.code == 6
    assert "log: runs/logs/" in done.err
    assert "  cells: figure7 (" in done.err
    (log, *_) = (tmp_path / "runs" / "logs").iterdir()
    assert "spec.json" in log.read_text()
    broken.spec_file.unlink()
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "runs").glob("*/record.json")}
    again = ctrobust(command, tmp_path, environment)
    assert again.code == 0
    assert {file: file.stat().st_mtime_ns for file in before} == before
    assert list((tmp_path / "runs" / "logs").iterdir()) == []
    assert "not run" not in again.out


@pytest.mark.slow
def test_two_commands_share_the_work_of_one_store(environment: dict[str, str], tmp_path: Path) -> None:
    words = ["reproduce", "figure7", "--preset", "smoke", "--workers", "1", "--render", "csv"]
    both = [
        subprocess.Popen([COMMAND, *words], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    results = WrittenOnce(tmp_path / "runs")
    while any(one.poll() is None for one in both):
        results.look()
        time.sleep(0.05)
    first, second = (one.communicate()[0] for one in both)
    assert [one.returncode for one in both] == [0, 0]
    assert first == second
    assert "not run" not in first
    assert len(results.first) > 10


@pytest.mark.slow
def test_ctrl_c_saves_and_prints_the_command_that_continues(terminal: Callable[..., Terminal], tmp_path: Path) -> None:
    command = "reproduce figure7 --preset smoke --workers 1"
    running = terminal(command)
    running.until(lambda: re.search(r"worker 1: [0-9:]+, (train|attack)", plain(running.text)) is not None)
    assert running.interrupt() == 130
    assert f"ctrobust {command}" in plain(running.text)
    assert "of 15 jobs" in plain(running.text)
    again = terminal(command)
    assert again.end() == 0
    assert "not run" not in plain(again.text)
    assert list((tmp_path / "runs" / ".locks").iterdir()) == []
