"""The demonstration: four networks on embedded data, attacked, illustrated, and tested for masking by cheap tests."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctrobust import data as datasets
from ctrobust.evaluation import ProgressCallback
from ctrobust.execution.job_runner import embed
from ctrobust.execution.picture_attacks import attack_images, choose_examples
from ctrobust.execution.stored_evaluation import EvaluationRow, evaluate_stored, expand
from ctrobust.execution.stored_verdict import verdict_stored
from ctrobust.models import WeightsFile
from ctrobust.outcomes import AttackedImages, Verdict
from ctrobust.specs import EmbeddingJob, TrainSpec, train_spec
from ctrobust.store import RunDirectory, RunRecord, embedding_file
from ctrobust.training import CheckpointPolicy, TrainingCallback, train

EPS = 0.1
DEMO_ATTACKS = ("fgsm", "pgd", "s-pgd")
CURVE = (EPS, EPS / 2, 2 * EPS)
"""The radii of the report's curve."""

PICTURES = 8
APGD_LIMIT = 100
"""The number of images for APGD, which takes five times as long."""

DEMO_METHODS: dict[str, dict[str, Any]] = {
    "dropout": {"method": "dropout"},
    "mdl": {"method": "mdl"},
    "fast-at": {"lr": 0.01, "recipe": {"name": "fast", "eps": EPS}},
    "fast-at+ctr": {"lr": 0.01, "recipe": {"name": "fast", "eps": EPS, "gamma": 2.0}},
}
"""Natural training with and without MDL, adversarial training with and without SCE.

With twice that rate Fast-AT with CTR overfits to the one step on some seeds and CPUs.
"""


@dataclass(frozen=True)
class DemoRun:
    """One network of the demonstration."""

    method: str
    path: Path
    record: RunRecord


def demo_spec(method: str) -> TrainSpec:
    """Ten epochs of scikit-learn's digits."""
    return train_spec({**DEMO_METHODS[method], "data": "digits", "epochs": 10})


def train_demo(out: Path, method: str, callback: TrainingCallback, checkpointing: CheckpointPolicy) -> DemoRun:
    """Train one network, or resume it where an interrupted demonstration stopped."""
    run = RunDirectory(out / method)
    return DemoRun(
        method, run.path, train(demo_spec(method), run, resume=True, callback=callback, checkpointing=checkpointing)
    )


def attack_demo(run: DemoRun, progress: ProgressCallback) -> Iterator[EvaluationRow]:
    """Attack one network with each attack; APGD attacks the first images only."""
    test, weights = datasets.load("digits", "test"), WeightsFile.read(run.path)
    yield from evaluate_stored(weights, test, expand(DEMO_ATTACKS, [str(EPS)]), progress=progress)
    yield from evaluate_stored(weights, test, expand(["apgd"], [str(EPS)]), limit=APGD_LIMIT, progress=progress)


def check_demo(run: DemoRun, progress: ProgressCallback) -> Verdict:
    """Run the nearly free masking tests on one network."""
    test, weights = datasets.load("digits", "test"), WeightsFile.read(run.path)
    return verdict_stored(weights, test, eps=EPS, tests="free", progress=progress).verdict


def illustrate_demo(run: DemoRun, progress: ProgressCallback) -> tuple[EvaluationRow, AttackedImages]:
    """Store what the report draws of one network, PGD with other radii and the t-SNE embedding of its logits.

    Returns the evaluation under PGD with the radius of the table, and some of its images for a contact sheet.
    """
    test, weights = datasets.load("digits", "test"), WeightsFile.read(run.path)
    attacks = expand(["pgd"], [f"{eps:g}" for eps in CURVE])
    first, *_ = evaluate_stored(weights, test, attacks, progress=progress)
    job, directory = EmbeddingJob(training=demo_spec(run.method)), RunDirectory(run.path)
    if not embedding_file(directory, job).exists():
        embed(job, directory, directory)
    positions = choose_examples(first.evaluation, PICTURES)
    return first, attack_images(weights.build(), test, attacks[0], positions)
