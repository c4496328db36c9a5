"""Plans of tables and figures."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ctrobust.execution import evaluate_stored, evaluation_data, expand, make_plan
from ctrobust.execution.expected_time import expected_time
from ctrobust.execution.planning import format_duration, is_ready
from ctrobust.experiments import EXPERIMENTS, PRESETS, experiment
from ctrobust.specs import EvaluationJob, TrainingJob, required_training, spec_hash
from ctrobust.specs.attack_fields import FGSMFields
from ctrobust.store import JobIndex, RunDirectory, Store

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


def test_the_json_has_the_documented_keys_and_every_kind_of_printed_value(tmp_path: Path) -> None:
    plan = make_plan([experiment(name, "paper") for name in ("table1", "table3", "figure1")], JobIndex(Store(tmp_path)))
    content: Any = plan.as_json()
    assert set(content) == {"cells", "jobs"}
    assert all(cell.keys() >= {"row", "column", "paper", "jobs"} for cell in content["cells"])
    assert all(job.keys() >= {"hash", "kind"} for job in content["jobs"])
    papers: dict[str, set[type]] = {}
    for cell in content["cells"]:
        papers.setdefault(cell["experiment"], set()).add(type(cell["paper"]))
        if isinstance(cell["paper"], dict):
            assert set(cell["paper"]) == {"value", "spread"}
    assert papers == {"table1": {float}, "table3": {float, dict}, "figure1": {type(None)}}
    metrics = {(cell["experiment"], cell["metric"]) for cell in content["cells"] if cell["jobs"]}
    assert {("table1", "average_rank"), ("table3", "minutes")} <= metrics


def test_the_plan_in_words_says_how_long_it_takes_where_that_is_known() -> None:
    store = Store("absent", (RESULTS,))
    plan = make_plan([experiment("table1", "laptop")], JobIndex(store))
    expected = expected_time(plan.missing, store)
    *lines, last = plan.lines(expected, 4)
    assert lines[:2] == ["table1 (laptop): Accuracy (%) and average rank of MDL and the methods it is compared with",
                         "cells: 104"]  # fmt: skip
    assert lines[2] == f"trainings: 96, of which {plan.count(TrainingJob, plan.missing)} are not stored"
    unknown = expected.unmeasured(TrainingJob)
    one, four = (format_duration(expected.total(workers)) for workers in (1, 4))
    assert last == f"expected time: {one} with 1 worker, {four} with 4; not measured: {unknown} trainings"
    assert 0 < unknown < len(plan.missing)


def test_times_of_an_empty_store_are_not_measured_and_a_full_one_needs_none(tmp_path: Path) -> None:
    plan = make_plan([experiment("table7", "smoke")], JobIndex(Store(tmp_path)))
    expected = expected_time(plan.missing, Store(tmp_path))
    assert plan.lines(expected, 2)[-1].startswith("expected time: not measured")
    assert dataclasses.replace(plan, missing=()).lines(expected_time((), Store(tmp_path)), 2)[-1] == (
        "expected time: none, everything is stored"
    )


def test_outcomes_of_an_older_revision_of_an_attack_do_not_count(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    list(evaluate_stored(run, evaluation_data(run, None, None), expand(["fgsm:eps=0.1"], []), limit=5))
    job = EvaluationJob(training=RunDirectory(run).read_spec(), attack="fgsm:eps=0.1", limit=5)
    assert JobIndex(Store(run.parent)).missing([job]) == []
    monkeypatch.setattr(FGSMFields, "revision", FGSMFields.revision + 1)
    assert JobIndex(Store(run.parent)).missing([job]) == [job]
