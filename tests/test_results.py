"""The committed results: found, read and shown from their directory alone."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ctrobust.outcomes import Evaluation, assess_masking
from ctrobust.reporting.results_page import fill_page
from ctrobust.specs import EvaluationSpec, TrainSpec, spec_hash, train_spec
from ctrobust.store import RunDirectory, Store, read_verdicts

RESULTS = Path(__file__).parents[1] / "results"
STORES = Store(RESULTS, (RESULTS.parent / "results-curves",))
RUNS = list(Store(RESULTS).runs())
KILOBYTES_PER_1000_EXAMPLES = 20


def test_there_are_results() -> None:
    assert len(RUNS) >= 15


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.path.name)
def test_every_evaluation_is_read_and_agrees_with_its_record(run: RunDirectory) -> None:
    assert spec_hash(run.read_spec()) == run.read_record().spec
    for one in run.evaluations():
        assert one.file == run.outcomes_file(one.record.spec)
        assert one.record.hash == spec_hash(one.record.spec)
        assert one.record.spec.weights == run.read_record().weights_sha256[:16]
        assert isinstance(one.evaluation, Evaluation)
        found, stored = one.evaluation.summary(), one.record.summary.model_dump()
        assert found["robust_accuracy"] == stored["robust_accuracy"]
        assert found["accuracy"] == stored["accuracy"]
        assert found["threshold"]["wrong_below"] == stored["threshold"]["wrong_below"]
        if one.attack != "none":
            assert one.file.stat().st_size <= KILOBYTES_PER_1000_EXAMPLES * 1000 * max(1, len(one.evaluation) / 1000)


@pytest.mark.parametrize("run", [run for run in RUNS if run.model_file.exists()], ids=lambda run: run.path.name)
def test_committed_weights_are_those_of_the_record(run: RunDirectory) -> None:
    assert hashlib.sha256(run.model_file.read_bytes()).hexdigest() == run.read_record().weights_sha256


@pytest.mark.parametrize("run", [run for run in RUNS if run.model_file.exists()], ids=lambda run: run.path.name)
def test_every_verdict_follows_from_its_measurements(run: RunDirectory) -> None:
    verdicts = read_verdicts(run)
    assert verdicts
    for one in verdicts:
        assert one.complete
        assert one.hash == spec_hash(one.spec)
        assert one.spec.weights == run.read_record().weights_sha256[:16]
        assert one.verdict == assess_masking(one.read_measurements(), one.verdict.setting)
        collapsed = bool(run.read_record().collapses)
        assert one.verdict.level == ("suspicious" if collapsed else "none found")


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("fashion-dropout", TrainSpec(data="fashion-mnist", epochs=50)),
        ("fashion-mdl", train_spec({"data": "fashion-mnist", "method": "mdl", "epochs": 50, "recipe": {"eta": 90.0}})),
        (
            "cifar-madry-g3",
            train_spec(
                {"data": "cifar10", "model": {"width": 16}, "epochs": 5, "recipe": {"name": "madry", "gamma": 3.0}}
            ),
        ),
    ],
)
def test_runs_are_found_by_their_spec(name: str, spec: TrainSpec) -> None:
    assert Store(RESULTS).find(spec) == RunDirectory(RESULTS / name)


def test_an_evaluation_is_found_by_its_spec() -> None:
    run = RunDirectory(RESULTS / "fashion-dropout")
    spec = EvaluationSpec(
        data="fashion-mnist", attack="pgd:eps=8/255", limit=1000, chunk=250,
        weights=run.read_record().weights_sha256[:16],
    )  # fmt: skip
    found = run.find_evaluation(spec)
    assert found is not None
    assert len(found.evaluation) == 1000


def test_results_are_shown_without_weights(tmp_path: Path) -> None:
    for name in ("fashion-mdl", "cifar-fast-g0-seed1"):
        shutil.copytree(RESULTS / name, tmp_path / name, ignore=shutil.ignore_patterns("*.safetensors"))
    command = [sys.executable, "-m", "ctrobust", "show", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert "fashion-mdl: fashion-mnist, mnistnet, natural samples=4 rho=1 eta=90, seed 0" in done.stdout
    assert "test accuracy 92.8% [92.3, 93.3] of 10,000" in done.stdout
    row = next(line for line in done.stdout.splitlines() if "fgsm:eps=8/255" in line and "29.4% [26.7, 32.3]" in line)
    assert row.split()[-1] == "1,000"


def test_the_page_of_results_has_the_numbers_of_the_stored_runs() -> None:
    page = (RESULTS.parent / "docs" / "results.md").read_text(encoding="utf-8")
    assert page.count("<!-- table: ") >= 7
    assert fill_page(page, STORES) == page, (
        "run: ctrobust fill docs/results.md --results results --results results-curves"
    )
    changed = page.replace("29.6 [26.9, 32.5]", "39.6 [26.9, 32.5]")
    assert changed != page
    assert fill_page(changed, STORES) == page
