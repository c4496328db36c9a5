"""Plans of tables and figures."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ctrobust.execution import make_plan
from ctrobust.execution.planning import is_ready
from ctrobust.experiments import EXPERIMENTS, PRESETS, experiment
from ctrobust.specs import EvaluationJob, TrainingJob, required_training, spec_hash
from ctrobust.store import JobIndex, Store

RESULTS = Path(__file__).parents[2] / "results"


def test_shared_trainings_are_planned_once_and_before_what_needs_them(tmp_path: Path) -> None:
    tables = [experiment(name, "paper") for name in ("table1", "table2", "table3", "table4")]
    plan = make_plan(tables, JobIndex(Store(tmp_path)))
    assert len(set(plan.jobs)) == len(plan.jobs)
    seen: set[object] = set()
    for job in plan.jobs:
        assert is_ready(job, seen)  # type: ignore[arg-type]
        seen.add(job)
    alone = [make_plan([table], JobIndex(Store(tmp_path))).count(TrainingJob) for table in tables]
    assert alone[:3] == [96, 72, 60]
    assert plan.count(TrainingJob) < sum(alone)
    assert plan.missing == plan.jobs


@pytest.mark.parametrize("preset", PRESETS)
def test_everything_is_planned_under_every_preset(tmp_path: Path, preset: str) -> None:
    plan = make_plan([experiment(name, preset) for name in EXPERIMENTS], JobIndex(Store(tmp_path)))
    assert {required_training(job) for job in plan.jobs} <= set(plan.jobs)
    content = plan.as_json()
    assert json.loads(json.dumps(content)) == content
    hashes = {job["hash"] for job in content["jobs"]}  # type: ignore[attr-defined]
    assert len(hashes) == len(plan.jobs)
    for cell in content["cells"]:  # type: ignore[attr-defined]
        assert cell["jobs"]
        assert set(cell["jobs"]) <= hashes


def test_committed_results_are_found_by_their_hash() -> None:
    plan = make_plan([experiment("table1", "laptop")], JobIndex(Store("absent", (RESULTS,))))
    stored = set(plan.jobs) - set(plan.missing)
    assert len(stored) >= 3
    found = {spec_hash(job.training) for job in stored}
    assert "b5a51f0e367e0cc1" in found  # MDL on Fashion-MNIST


def test_planning_loads_no_torch(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from ctrobust.execution import make_plan\n"
        "from ctrobust.experiments import experiment\n"
        "from ctrobust.store import JobIndex, Store\n"
        f"plan = make_plan([experiment('table7', 'paper')], JobIndex(Store({str(tmp_path)!r})))\n"
        "print(len(plan.jobs) > 5, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["True", "False"]


def test_a_job_says_whether_it_is_stored(tmp_path: Path) -> None:
    plan = make_plan([experiment("table7", "smoke")], JobIndex(Store(tmp_path)))
    jobs = plan.as_json()["jobs"]
    assert all(job["stored"] is False for job in jobs)  # type: ignore[attr-defined]
    assert plan.count(EvaluationJob) == 80
