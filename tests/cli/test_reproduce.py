"""`ctrobust reproduce`."""

import json
from pathlib import Path

from tests.cli.command import Inside

RESULTS = Path(__file__).parents[2] / "results"


def test_a_dry_run_prints_the_plan_and_runs_nothing(inside: Inside, tmp_path: Path) -> None:
    done = inside(f"reproduce table1 --dry-run --store {tmp_path / 'runs'} --results {RESULTS}")
    assert done.code == 0
    assert "cells: 104" in done.out
    assert "trainings: 96, of which" in done.out
    assert not (tmp_path / "runs").exists()


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
        ("reproduce table1 --results nowhere", "--results nowhere: there is no such directory"),
    ]:
        done = inside(f"{command} --store {tmp_path}")
        assert done.code == 2, command
        assert message in done.err
