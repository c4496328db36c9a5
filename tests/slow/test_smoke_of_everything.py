"""Every table and figure of the paper, end to end, at the smallest size."""

import csv
import io
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]


def reproduce(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ctrobust", "reproduce", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=2300)


def test_every_cell_of_every_table_and_figure_runs(tmp_path: Path) -> None:
    done = reproduce("all", "--preset", "smoke", "--render", "csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    tables = [text for text in done.stdout.split("row,column,metric")[1:] if text.strip()]
    assert len(tables) == 16
    for text in tables:
        for row in csv.DictReader(io.StringIO("row,column,metric" + text)):
            assert row["jobs_done"] == row["jobs"] or row["metric"] == "average_rank", row
            if row["metric"] != "tsne":
                assert row["value"], row
    again = reproduce("all", "--preset", "smoke", "--render", "csv", "--figures", "figures", cwd=tmp_path)
    assert again.stdout == done.stdout
    assert "jobs" not in again.stderr  # nothing was left to run
    assert len(list((tmp_path / "figures").iterdir())) == 21  # seven figures in three forms


def test_table_7_takes_less_than_a_minute(tmp_path: Path) -> None:
    started = time.monotonic()
    done = reproduce("table7", "--preset", "smoke", cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "80 of 80 cells have a value" in done.stdout
    assert time.monotonic() - started < 60
