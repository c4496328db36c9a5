"""Bring run directories of an older version to the present form, in place.

    python -m benchmarks.upgrade_results results --data-root DIR

Specs show their resolved values, records are typed, and each file of outcomes becomes compact with a record beside it.
What an older version did not record is null. Directory names, file names and weights stay. A file of outcomes is
rewritten only if the hash in its name is the hash of the spec that is written into its record, so nothing is guessed.
Directories in the present form are left alone.
"""

import argparse
import hashlib
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np

from ctrobust import data as datasets
from ctrobust.attacks import parse
from ctrobust.models import WeightsFile
from ctrobust.outcomes import Evaluation
from ctrobust.specs import EvaluationSpec, read_description, spec_hash
from ctrobust.store import EvaluationFacts, RunDirectory, RunRecord, read_arrays, write_outcomes
from ctrobust.store.records import write_record

NAMES = ("fgsm", "pgd", "mifgsm", "pgd-sce", "cw-pgd", "s-pgd", "apgd", "s-apgd", "autoattack")
ATTACKS = [str(parse(f"{name}:eps={k}/255")) for name in NAMES for k in (1, 2, 4, 8, 16)]
"""The attacks that older versions of the results were made with."""


def upgrade_spec(run: RunDirectory) -> None:
    spec = read_description(run.spec_file.read_text())
    run.write_spec(spec)


def upgrade_record(run: RunDirectory, weights: WeightsFile) -> None:
    old: dict[str, Any] = json.loads(run.record_file.read_text())
    if old.get("version") == 2:
        return
    results = old["results"]
    results.setdefault("success_on_correct", 0.0)  # of clean images, where nothing is broken
    new = {
        "spec": old["spec"],
        "weights_sha256": weights.sha256,
        "data": {**old["data"], "classes": weights.metadata["classes"]},
        "results": results,
        "steps": old["steps"],
        "seconds_per_epoch": old["seconds_per_epoch"],
        "cpu_seconds_per_epoch": old.get("cpu_seconds_per_epoch"),
        "environment": old["environment"],
        "earlier_environments": old.get("earlier_environments", []),
        "weight_average": old.get("weights"),
        "validation": old.get("validation"),
        "collapses": old.get("collapses"),
        "returned_to_epoch": old.get("returned_to_epoch"),
        "warnings": old.get("warnings", []),
    }
    write_record(run.record_file, RunRecord.model_validate(new))


def evaluation_spec(file: Path, count: int, common: dict[str, Any]) -> EvaluationSpec:
    """The spec whose hash is in the name of a file of outcomes."""
    wanted = file.stem.rpartition("-")[2]
    for attack, chunk, limit in itertools.product(ATTACKS, (250, 256), (count, None)):
        spec = EvaluationSpec(attack=attack, chunk=chunk, limit=limit, **common)
        if spec_hash(spec) == wanted:
            return spec
    raise SystemExit(f"{file}: no known attack, limit and chunk has the hash {wanted}")


def upgrade_outcomes(run: RunDirectory, weights: WeightsFile, test: datasets.Dataset) -> None:
    common = {
        "data": test.name,
        "weights": weights.sha256[:16],
        "contents": None if test.verified else test.digest(),
    }
    facts = EvaluationFacts(classes=tuple(weights.metadata["classes"]))
    clean_seen: dict[Path, Evaluation] = {}
    for file in sorted(run.outcomes_folder.glob("*.npz")):
        if file.with_suffix(".json").exists():
            continue
        evaluation = Evaluation.from_arrays(read_arrays(file))
        spec = evaluation_spec(file, len(evaluation), common)
        clean_spec = spec.model_copy(update={"attack": "none"})
        clean_file = run.outcomes_file(clean_spec)
        if clean_file in clean_seen:
            known = clean_seen[clean_file]
            assert np.array_equal(known.labels, evaluation.labels)
            assert np.array_equal(known.clean_prediction, evaluation.clean_prediction)
            assert np.allclose(known.clean_probabilities, evaluation.clean_probabilities, atol=1e-6)
        else:
            write_outcomes(clean_file, clean_spec, evaluation_without_attack(evaluation), None, facts)
            clean_seen[clean_file] = evaluation
        write_outcomes(file, spec, evaluation, clean_file, facts)


def evaluation_without_attack(evaluation: Evaluation) -> Evaluation:
    zeros = np.zeros(len(evaluation), dtype=np.int64)
    return Evaluation(
        evaluation.labels, evaluation.clean_probabilities, evaluation.clean_probabilities, evaluation.clean_prediction,
        evaluation.clean_prediction, zeros.astype(np.float32), zeros, zeros, zeros.astype(bool),
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("--data-root", type=Path)
    options = parser.parse_args()
    for spec_file in sorted(options.root.rglob("spec.json")):
        run = RunDirectory(spec_file.parent)
        if not run.record_file.exists():
            continue
        before = hashlib.sha256(run.model_file.read_bytes()).hexdigest()
        weights = WeightsFile.read(run.path)
        upgrade_spec(run)
        upgrade_record(run, weights)
        if any(not file.with_suffix(".json").exists() for file in run.outcomes_folder.glob("*.npz")):
            upgrade_outcomes(run, weights, datasets.load(weights.metadata["data"], "test", options.data_root))
        assert weights.sha256 == before
        size = sum(file.stat().st_size for file in run.path.rglob("*") if file.is_file())
        print(f"{run.path}: {len(run.evaluations())} evaluations, {size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
