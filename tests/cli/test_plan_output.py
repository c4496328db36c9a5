"""What --dry-run prints."""

import json
from pathlib import Path

import pytest

from tests.cli.command import Inside


@pytest.fixture(autouse=True)
def _no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTROBUST_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("ctrobust.data.locate.SYSTEM_ROOT", tmp_path / "system")


def test_the_plan_names_missing_data_and_nothing_runs_without_them(inside: Inside, tmp_path: Path) -> None:
    plan = inside(f"reproduce table6 --dry-run --store {tmp_path / 'runs'}")
    assert plan.code == 0
    assert "expected time: not measured" in plan.out
    assert "missing data: cifar10 was not found. Put data_batch_1.bin" in plan.out
    done = inside(f"reproduce table6 --store {tmp_path / 'runs'}")
    assert done.code == 4
    assert "nothing was run, because data are missing" in done.err
    assert str(tmp_path / "system" / "cifar-10-batches-bin") in done.err
    assert not (tmp_path / "runs").exists()


def test_json_has_the_expected_seconds_of_each_job(inside: Inside, tmp_path: Path) -> None:
    plan = json.loads(inside(f"reproduce table7 --preset smoke --dry-run --json --store {tmp_path}").out)
    assert {job["seconds"] for job in plan["jobs"]} == {None}
