"""`ctrobust verify`: an honest run passes, a changed record and changed outcomes do not."""

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ctrobust import data, execution
from ctrobust.specs import train_spec
from ctrobust.store import (
    OutcomeSummary,
    RunDirectory,
    StoredEvaluation,
    read_arrays,
    read_curves,
    read_verdicts,
    write_arrays,
)
from ctrobust.store.records import write_record
from ctrobust.training import train
from tests import user_networks
from tests.cli.command import Inside


@pytest.fixture(scope="module")
def attacked_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that is better than chance, with two stored attacks, one of which uses the fused copy."""
    run = RunDirectory(tmp_path_factory.mktemp("verify") / "run")
    train(train_spec({"data": "digits", "epochs": 4, "model": {"width": 8}}), run)
    attacks = execution.expand(["fgsm", "pgd:steps=10"], ["0.05"])
    rows = list(execution.evaluate_stored(run.path, data.load("digits", "test"), attacks, limit=60))
    assert all(0 < row.evaluation.robust_accuracy < row.evaluation.accuracy for row in rows)
    return run.path


@pytest.fixture
def evaluated(attacked_run: Path, tmp_path: Path) -> RunDirectory:
    return RunDirectory(Path(shutil.copytree(attacked_run, tmp_path / "run")))


def attacked(run: RunDirectory) -> StoredEvaluation:
    return next(one for one in run.evaluations() if one.attack.startswith("fgsm"))


def rewrite(stored: StoredEvaluation, **changed: Any) -> None:
    """Change the record of an evaluation, with a checksum that fits."""
    write_record(stored.file.with_suffix(".json"), stored.record.model_copy(update=changed))


@pytest.mark.usefixtures("evaluated")
def test_an_honest_run_passes(inside: Inside) -> None:
    code, out, err = inside("verify run --json")
    assert code == 0, err
    checks = {check["what"]: check for check in json.loads(out)["checks"]}
    assert all(check["passed"] for check in checks.values())
    assert checks["attacked again"]["finding"].startswith(("0 of 50", "1 of 50"))
    assert len(checks) == 3 + 4  # two attacks and their clean outcomes; spec, weights, accuracy, the sample

    code, out, _ = inside("verify run --sample 5")
    assert code == 0
    assert "The numbers of 3 evaluations and curves agree with their outcomes." in out
    assert "of 5 examples attacked alone came out differently" in out


def test_a_changed_record_is_caught(evaluated: RunDirectory, inside: Inside) -> None:
    stored = attacked(evaluated)
    wrong = stored.record.summary.model_copy(update={"robust_accuracy": stored.record.summary.robust_accuracy + 0.01})
    rewrite(stored, summary=wrong)
    code, out, err = inside("verify run --sample 0")
    assert code == 6
    assert f"FAILED: {stored.file.name}: The record disagrees with the outcomes in robust_accuracy." in out
    assert "1 of 6 checks of run failed" in err


def test_changed_outcomes_are_caught_by_their_checksum(evaluated: RunDirectory, inside: Inside) -> None:
    stored = attacked(evaluated)
    arrays = read_arrays(stored.file)
    write_arrays(stored.file, {**arrays, "prediction": arrays["prediction"][::-1]})
    code, out, _ = inside("verify run --sample 0")
    assert code == 6
    assert f"FAILED: {stored.file.name}" in out
    assert "SHA-256" in out


def test_outcomes_forged_with_their_checksum_and_record_are_caught_by_attacking_again(
    evaluated: RunDirectory, inside: Inside
) -> None:
    for stored in evaluated.evaluations():
        if stored.attack == "none":
            continue
        labels = stored.evaluation.labels
        arrays = {**read_arrays(stored.file), "prediction": labels.astype(np.uint8)}  # nothing is ever broken
        write_arrays(stored.file, arrays)
        rewrite(stored, arrays_sha256=hashlib.sha256(stored.file.read_bytes()).hexdigest())
        forged = StoredEvaluation.read(stored.file)
        rewrite(forged, summary=OutcomeSummary.model_validate(forged.evaluation.summary()))
    code, out, _ = inside("verify run")
    assert code == 6
    assert "FAILED: attacked again" in out


def test_changed_curves_and_verdicts_are_caught(evaluated: RunDirectory, inside: Inside) -> None:
    assert inside("evaluate run --attack fgsm --eps 0.05..0.1 --limit 20").code == 0
    weights = execution.read_weights(evaluated.path)
    digits = execution.evaluation_data(weights, None, None)
    execution.verdict_stored(weights, digits, eps=0.05, limit=20, tests=["zero gradients"])
    honest = inside("verify run --sample 0")
    assert honest.code == 0
    assert "It follows from its measurements." in honest.out
    shown = inside("show run").out
    assert "masking verdict (20 images, linf, eps 0.05): Not tested" in shown
    assert "curve up to fgsm:eps=0.1, eps 0.05 to 0.1: run/curves/" in shown
    document = json.loads(inside("show run --json").out)[0]
    assert (document["verdicts"][0]["level"], len(document["curves"])) == ("not tested", 1)

    (curve,) = (evaluated.path / "curves").glob("*.npz")
    (verdict,) = (evaluated.path / "verdicts").glob("*.json")
    arrays, text = read_arrays(curve), verdict.read_text()
    write_arrays(curve, {**arrays, "broken_at": arrays["broken_at"] * 1.5})
    found = inside("verify run --sample 0")
    assert found.code == 6
    assert f"FAILED: {curve.name}" in found.out
    write_arrays(curve, arrays)
    verdict.write_text(text.replace('"not tested"', '"none found"'))
    found = inside("verify run --sample 0")
    assert found.code == 6
    assert f"FAILED: {verdict.name}" in found.out
    verdict.write_text(text)

    (stored,) = read_curves(evaluated)  # forged with checksums that fit
    write_record(curve.with_suffix(".json"), stored.record.model_copy(update={"summary": {"count": 20}}))
    (record,) = read_verdicts(evaluated)
    write_record(verdict, record.model_copy(update={"verdict": replace(record.verdict, level="none found")}))
    found = inside("verify run --sample 0")
    assert found.code == 6
    assert "The record disagrees with the radii of the examples." in found.out
    assert "It does not follow from its measurements." in found.out


def test_other_weights_and_another_spec_are_caught(evaluated: RunDirectory, inside: Inside) -> None:
    record = evaluated.read_record()
    evaluated.write_record(record.model_copy(update={"weights_sha256": "0" * 64}))
    code, out, _ = inside("verify run --sample 0")
    assert code == 6
    assert "FAILED: model.safetensors: " in out
    evaluated.write_record(record.model_copy(update={"spec": "0" * 16}))
    code, out, _ = inside("verify run --sample 0")
    assert code == 6
    assert "FAILED: record.json: " in out
    assert "spec.json was changed after the run finished" in out


def test_what_is_no_run_is_refused(inside: Inside, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    code, _, err = inside("verify empty")
    assert code == 5
    assert "empty" in err


def test_a_network_that_returns_a_tuple_is_attacked_again(inside: Inside, tmp_path: Path) -> None:
    user_networks.write_class_means(tmp_path / "means.safetensors")
    given = "--weights means.safetensors"
    line = f"evaluate tests.user_networks:tuples {given} --data digits --limit 30 --out own"
    assert inside(f"{line} --attack fgsm:eps=0.05 --no-probabilities").code == 0
    (stored,) = (one for one in RunDirectory(tmp_path / "own").evaluations() if one.attack != "none")
    assert stored.record.probabilities == "none"
    done = inside(f"verify own --model tests.user_networks:tuples {given}")
    assert done.code == 0, done.err
    assert "examples attacked alone came out differently" in " ".join(done.out.split())
    without = inside("verify own --model tests.user_networks:tuples")
    assert without.code == 2
    assert "add --weights FILE" in without.err
