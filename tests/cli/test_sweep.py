"""`ctrobust sweep`."""

import csv
from pathlib import Path

import pytest

from tests.cli.command import Inside

SWEEP = """
title = "Fast-AT on digits"
attacks = ["fgsm:eps=0.1"]
limit = 10
seeds = [0, 1]

[base]
epochs = 1
limit = 64
model.width = 8
recipe.name = "fast"
recipe.eps = 0.1

[vary]
recipe.gamma = [0, 2]
"""


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    file = tmp_path / "gammas.toml"
    file.write_text(SWEEP)
    return file


def test_a_dry_run_prints_the_plan_and_runs_nothing(inside: Inside, sweep: Path, tmp_path: Path) -> None:
    done = inside(f"sweep {sweep} --dry-run --store {tmp_path / 'runs'}")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[:4] == [
        "gammas (sweep): Fast-AT on digits",
        "cells: 4",
        "trainings: 4, of which 4 are not stored",
        "evaluations: 4, of which 4 are not stored",
    ]
    assert not (tmp_path / "runs").exists()


def test_what_is_not_run_is_marked(inside: Inside, sweep: Path, tmp_path: Path) -> None:
    done = inside(f"sweep {sweep} --no-run --render csv --store {tmp_path / 'runs'}")
    rows = list(csv.DictReader(done.out.splitlines()))
    assert [(row["row"], row["column"], row["jobs"], row["remark"]) for row in rows] == [
        (f"gamma {gamma}", column, "2", "not run") for gamma in (0, 2) for column in ("accuracy", "fgsm:eps=0.1")
    ]


def test_errors_name_the_file_and_the_key(inside: Inside, sweep: Path, tmp_path: Path) -> None:
    sweep.write_text(SWEEP.replace("attacks", "atacks"))
    wrong = inside(f"sweep {sweep} --store {tmp_path}")
    assert wrong.code == 3
    assert f"{sweep}: unknown key atacks (did you mean attacks?)" in wrong.err
    sweep.write_text("[vary\n")
    assert f"{sweep} is not TOML" in inside(f"sweep {sweep}").err
    sweep.write_text("#" * (1 << 21))
    assert "expected at most 1,048,576" in inside(f"sweep {sweep}").err
    assert inside(f"sweep {tmp_path}").code == inside(f"sweep {tmp_path / 'absent.toml'}").code == 3


@pytest.mark.slow
def test_a_sweep_is_run_rendered_and_not_run_again(inside: Inside, sweep: Path, tmp_path: Path) -> None:
    done = inside(f"sweep {sweep} --render csv --store {tmp_path / 'runs'}")
    assert done.code == 0
    rows = list(csv.DictReader(done.out.splitlines()))
    assert len(rows) == 4
    assert all(row["value"] and row["spread"] and row["jobs_done"] == "2" for row in rows)
    again = inside(f"sweep {sweep} --dry-run --store {tmp_path / 'runs'}")
    assert "expected time: none, everything is stored" in again.out
