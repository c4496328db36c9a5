"""Run directories as trainings and evaluations leave them, with outcomes drawn at random: no network is trained."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ctrobust.outcomes import Evaluation
from ctrobust.specs import EvaluationSpec, TrainSpec, UserModelSpec, spec_hash, train_spec
from ctrobust.store import EvaluationFacts, OutcomeSummary, RunDirectory, RunRecord, write_outcomes
from ctrobust.store.records import CollapseRecord, RunData

CLASSES = ("zero", "one", "two", "three")
ENVIRONMENT: dict[str, Any] = {"ctrobust": "0.1.0", "commit": "0123456789ab", "versions": {"numpy": "2"}}
WEIGHTS = "ab" * 32


def draw_outcomes(
    seed: int, robust: float, count: int = 120, classes: int = len(CLASSES), labels_seed: int = 0, attacked: bool = True
) -> Evaluation:
    """Outcomes with about a share `robust` of the examples correct under attack; labels depend on `labels_seed`."""
    labels = np.random.default_rng(labels_seed).integers(classes, size=count)
    random = np.random.default_rng(seed)
    logits = random.normal(size=(count, classes))
    logits[np.arange(count), labels] += 4
    clean = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    clean = clean.astype(np.float32)
    clean_prediction = clean.argmax(axis=1)
    broken = random.random(count) > robust if attacked else np.zeros(count, bool)
    prediction = np.where(broken & (clean_prediction == labels), (labels + 1) % classes, clean_prediction)
    probabilities = clean.copy()
    rows = np.arange(count)
    probabilities[rows, prediction], probabilities[rows, clean_prediction] = (
        clean[rows, clean_prediction], clean[rows, prediction],
    )  # fmt: skip
    ones = np.full(count, int(attacked), np.int64)
    return Evaluation(
        labels, clean, probabilities, clean_prediction, prediction, np.full(count, 0.1, np.float32) * ones, ones, ones,
        np.zeros(count, bool),
    )  # fmt: skip


def make_run(
    path: Path,
    fields: dict[str, Any] | None = None,
    *,
    attacks: Sequence[tuple[str, float]] = (("fgsm:eps=0.1", 0.7), ("pgd:eps=0.1", 0.5)),
    count: int = 120,
    classes: Sequence[str] = CLASSES,
    collapsed: bool = False,
    finished: bool = True,
    draw_seed: int = 1,
) -> RunDirectory:
    """Write a run with its evaluations: spec, metrics, record and outcomes."""
    spec: TrainSpec = train_spec({"data": "digits", "epochs": 2, **(fields or {})})
    run = RunDirectory(path)
    run.write_spec(spec)
    for epoch in (1, 2):
        metrics = {"epoch": epoch, "step": epoch, "loss": 2.0 / epoch, "lr": 0.1, "seconds": 1.0}
        run.add_metrics({**metrics, "watched_accuracy": 0.1 * epoch, "collapsed": collapsed and epoch == 2})
    if not finished:
        return run
    clean = draw_outcomes(draw_seed, 1.0, count, len(classes), attacked=False)
    run.write_record(
        RunRecord(
            spec=spec_hash(spec), weights_sha256=WEIGHTS,
            data=RunData(name=spec.data, train=100, test=count, verified=True, classes=tuple(classes)),
            results=OutcomeSummary.model_validate(clean.summary()), steps=2, seconds_per_epoch=(1.0, 1.0),
            environment=ENVIRONMENT,
            collapses=(CollapseRecord(epoch=2, before=0.2, after=0.0, one_step=0.6),) if collapsed else None,
        )
    )  # fmt: skip
    add_evaluations(run, spec.data, attacks, count=count, classes=classes, draw_seed=draw_seed)
    return run


def add_evaluations(
    run: RunDirectory,
    data: str,
    attacks: Sequence[tuple[str, float]],
    *,
    count: int,
    classes: Sequence[str],
    draw_seed: int,
) -> None:
    """Write the clean outcomes and those of each attack, on the same examples."""
    facts = EvaluationFacts(classes=tuple(classes), seconds=1.5, environment=ENVIRONMENT)
    spec = EvaluationSpec(data=data, limit=count, attack="none", weights=WEIGHTS[:16])
    clean = draw_outcomes(draw_seed, 1.0, count, len(classes), attacked=False)
    file = write_outcomes(run.outcomes_file(spec), spec, clean, None, facts).file
    for attack, robust in attacks:
        attacked = draw_outcomes(draw_seed, robust, count, len(classes))
        one = spec.model_copy(update={"attack": attack})
        write_outcomes(run.outcomes_file(one), one, attacked, file, facts)


def make_user_run(path: Path, *, draw_seed: int = 1, mean: tuple[float, ...] | None = None) -> RunDirectory:
    """Write the evaluations of a network that was trained elsewhere."""
    run = RunDirectory(path)
    std = None if mean is None else (0.5,) * len(mean)
    run.write_spec(
        UserModelSpec(factory="nets:wide", data="digits", network=WEIGHTS, weights="cd" * 32, mean=mean, std=std)
    )
    attacks = (("fgsm:eps=0.1", 0.7), ("pgd:eps=0.1", 0.5))
    add_evaluations(run, "digits", attacks, count=120, classes=CLASSES, draw_seed=draw_seed)
    return run
