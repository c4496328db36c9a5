"""Verification of a run: its results are computed again from what is stored, and a sample is attacked again."""

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from ctrobust import data as datasets
from ctrobust.attacks import parse, revision
from ctrobust.attacks.base import Attack
from ctrobust.attacks.stages import run_attack
from ctrobust.data import Dataset
from ctrobust.errors import DataError, InputError, RunError
from ctrobust.evaluation import ModelInputs, evaluate
from ctrobust.execution.stored_evaluation import AttackedNetwork, evaluation_data, read_weights
from ctrobust.model_outputs import as_logits
from ctrobust.models import UserModel, user_model
from ctrobust.outcomes import Verdict, assess_masking
from ctrobust.specs import UserModelSpec, spec_hash
from ctrobust.store import OutcomeSummary, RunDirectory, RunRecord, StoredCurve, StoredEvaluation
from ctrobust.store.verdict_files import read_verdict

FLIPS_ALLOWED = 0.02
"""The share of examples that may flip at batch size 1: rounding differs there, and some examples are borderline."""

VerificationCallback = Callable[[int, int, str], None]
"""Called with the number of examples attacked again, of how many, and the attack."""


@dataclass(frozen=True)
class VerificationCheck:
    """One thing that was verified.

    Attributes:
        what: the file or the number.
        passed: whether it is as the record has it.
        finding: what was found, in one sentence.
    """

    what: str
    passed: bool
    finding: str


def verify_run(
    path: Path,
    *,
    data: str | None = None,
    data_root: Path | None = None,
    sample: int = 50,
    seed: int = 0,
    callback: VerificationCallback | None = None,
    factory: str | None = None,
    user_weights: Path | None = None,
) -> list[VerificationCheck]:
    """Verify the record, the weights, and every evaluation, curve and verdict of a run, and attack examples again.

    `factory` builds a network of the user; `user_weights` are its weights if it was trained elsewhere. Without them
    only what is stored is verified.

    The examples are drawn from all stored attacks on these weights, and each is attacked alone: with the same keys its
    random draws are the same, so that only rounding can change an outcome.
    """
    if sample < 0:
        raise InputError(f"sample is at least 0, got {sample}")
    run = RunDirectory(path)
    if run.spec_file.exists() and isinstance(spec := run.read_any_spec(), UserModelSpec):
        checks, evaluations = _stored_numbers(run)
        network, check = _user_network(spec, factory, user_weights)
        checks += [*_stored_curves(run), *_stored_verdicts(run), check]
        if network is not None and sample and (attacked := _attacks_on(network, evaluations)):
            checks += _attack_again(attacked, network.build(), data, data_root, sample, seed, callback)
        return checks
    if user_weights is not None:
        raise InputError(f"--weights is for a network that was trained elsewhere; {path} holds its own")
    record, found = _record(run)
    if record is None:
        return [found]
    checks, evaluations = _stored_numbers(run)
    checks += [*_stored_curves(run), *_stored_verdicts(run)]
    checks.insert(0, found)
    if not run.model_file.exists():
        return [
            *checks,
            VerificationCheck("model.safetensors", True, "The weights are not here, so nothing was attacked again."),
        ]
    try:
        weights = read_weights(run.model_file, factory)  # its SHA-256 is compared with the record's
    except RunError as error:
        return [*checks, VerificationCheck("model.safetensors", False, str(error))]
    model = weights.build()
    checks.append(VerificationCheck("model.safetensors", True, "Its SHA-256 is that of the record."))
    checks.append(_clean_accuracy(record, model, evaluation_data(weights, data, data_root)))
    if sample and (attacked := _attacks_on(weights, evaluations)):
        checks += _attack_again(attacked, model, data, data_root, sample, seed, callback)
    return checks


def _attacks_on(network: AttackedNetwork, evaluations: list[StoredEvaluation]) -> list[StoredEvaluation]:
    """The stored attacks on these weights."""
    digest = network.sha256[:16]
    return [one for one in evaluations if one.attack != "none" and one.record.spec.weights == digest]


def _user_network(
    spec: UserModelSpec, factory: str | None, weights: Path | None
) -> tuple[UserModel | None, VerificationCheck]:
    """Build the network that was trained elsewhere, if its factory is given, and compare it with the stored one."""
    if factory is None:
        if weights is not None:
            raise InputError(f"--weights needs --model {spec.factory}, which builds the network")
        remedy = f"add --model {spec.factory}" + (" and --weights FILE" if spec.weights is not None else "")
        text = f"The network was not given, so nothing was attacked again; {remedy} to do so."
        return None, VerificationCheck("network", True, text)
    if weights is None and spec.weights is not None:
        raise InputError(f"the weights of {factory} are in a file of their own; add --weights FILE")
    network = user_model(factory, weights, spec.mean, spec.std)
    if network.sha256 != spec.network:
        text = f"{factory} with these weights is another network than the one that was evaluated."
        return None, VerificationCheck("network", False, text)
    return network, VerificationCheck("network", True, "Its tensors are those that were evaluated.")


def _stored_curves(run: RunDirectory) -> Iterator[VerificationCheck]:
    """Check each curve against its record."""
    for file in sorted((run.path / "curves").glob("*.npz")):
        try:
            stored = StoredCurve.read(file)
            wrong = json.loads(json.dumps(stored.curve.summary())) != stored.record.summary
            wrong = wrong or stored.record.hash != spec_hash(stored.record.spec) or stored.record.hash not in file.name
        except RunError as error:
            yield VerificationCheck(file.name, False, str(error))
            continue
        text = "The record disagrees with the radii of the examples." if wrong else "All numbers agree."
        yield VerificationCheck(file.name, not wrong, text)


def _stored_verdicts(run: RunDirectory) -> Iterator[VerificationCheck]:
    """Assess the measurements of each verdict again."""
    for file in sorted((run.path / "verdicts").glob("*.json")):
        try:
            stored = read_verdict(file)
        except RunError as error:
            yield VerificationCheck(file.name, False, str(error))
            continue
        wrong = not _same_verdict(stored.verdict, assess_masking(stored.read_measurements(), stored.verdict.setting))
        wrong = wrong or stored.hash != spec_hash(stored.spec) or stored.hash not in file.name
        text = "It does not follow from its measurements." if wrong else "It follows from its measurements."
        yield VerificationCheck(file.name, not wrong, text)


def _stored_numbers(run: RunDirectory) -> tuple[list[VerificationCheck], list[StoredEvaluation]]:
    """Check each evaluation against its record; return also the evaluations whose arrays are intact."""
    checks: list[VerificationCheck] = []
    intact: list[StoredEvaluation] = []
    for file in sorted(run.outcomes_folder.glob("*.npz")):
        try:
            stored = StoredEvaluation.read(file)
            summary = OutcomeSummary.model_validate(stored.evaluation.summary())
        except RunError as error:
            checks.append(VerificationCheck(file.name, False, str(error)))
            continue
        wrong = [
            name
            for name in OutcomeSummary.model_fields
            if getattr(summary, name) != getattr(stored.record.summary, name)
        ]
        if stored.record.hash != spec_hash(stored.record.spec) or stored.record.hash not in file.name:
            wrong.append("hash")
        finding = f"The record disagrees with the outcomes in {', '.join(wrong)}." if wrong else "All numbers agree."
        checks.append(VerificationCheck(file.name, not wrong, finding))
        if not wrong:
            intact.append(stored)
    return checks, intact


def _same_verdict(one: Verdict, other: Verdict) -> bool:
    """Whether levels are equal and numbers agree up to rounding; sentences may be worded otherwise."""
    if (one.level, len(one.evidence)) != (other.level, len(other.evidence)):
        return False
    for first, second in zip(one.evidence, other.evidence, strict=True):
        same = (first.test, first.level, first.numbers.keys()) == (second.test, second.level, second.numbers.keys())
        if not same or not all(_same_number(value, second.numbers[key]) for key, value in first.numbers.items()):
            return False
    return True


def _same_number(one: float | str | None, other: float | str | None) -> bool:
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9)
    return one == other


def _record(run: RunDirectory) -> tuple[RunRecord | None, VerificationCheck]:
    """The record of the run, if it is that of the spec beside it."""
    if not run.record_file.exists():
        run.read_spec()
        run.read_record()  # raises: not finished
    try:
        return run.read_record(), VerificationCheck("record.json", True, "It is the record of the spec beside it.")
    except RunError as error:
        return None, VerificationCheck("record.json", False, str(error))


def _clean_accuracy(record: RunRecord, model: nn.Module, test: Dataset) -> VerificationCheck:
    """Classify the test images again; borderline images may flip on another processor."""
    recorded = record.results
    found = evaluate(model, test)
    flips = abs(round(found.accuracy * len(found)) - round(recorded.accuracy * recorded.count))
    passed = len(found) == recorded.count and flips <= max(1, len(found) // 1000)
    text = f"Accuracy is {100 * found.accuracy:.2f}% on {len(found):,} images, recorded as"
    return VerificationCheck("accuracy", passed, f"{text} {100 * recorded.accuracy:.2f}% on {recorded.count:,}.")


def _attack_again(
    stored: list[StoredEvaluation],
    model: nn.Module,
    data: str | None,
    data_root: Path | None,
    sample: int,
    seed: int,
    callback: VerificationCallback | None,
) -> list[VerificationCheck]:
    """Attack random examples of the stored evaluations alone and compare whether they are broken."""
    if any(one.record.spec.repeats > 1 for one in stored):
        text = "Its random draws depend on the batch, so an image alone has other ones; nothing was attacked again."
        return [VerificationCheck("attacked again", True, text)]
    draw = np.random.default_rng(seed)
    sizes = [int(one.evaluation.clean_correct.sum()) for one in stored]
    counts = draw.multivariate_hypergeometric(sizes, min(sample, sum(sizes)))
    done, flipped, checks = 0, [], []
    for one, count in zip(stored, counts.tolist(), strict=True):
        spec, attack = one.record.spec, parse(one.attack)
        if spec.revision != revision(attack):
            checks.append(
                VerificationCheck(one.file.name, False, f"{one.attack} has changed since these outcomes were made.")
            )
            continue
        if data is None and spec.data not in datasets.DATASETS:
            raise InputError(
                f"{one.file.name} is of {spec.data!r}; data of your own are read only where you name them by --data"
            )
        images = datasets.load(data or spec.data, spec.split, data_root)
        if spec.contents != (None if images.verified else images.digest()):
            raise DataError(f"{one.file.name} was made with other contents of {spec.data} than those found here")
        correct = np.flatnonzero(one.evaluation.clean_correct)
        for position in draw.choice(correct, count, replace=False).tolist():
            if _is_broken(attack, model, images, position, fuse=one.record.fused is not False) == bool(
                one.evaluation.robust[position]
            ):
                flipped.append(f"{one.attack} on example {position}")
            done += 1
            if callback is not None:
                callback(done, int(counts.sum()), one.attack)
    allowed = max(1, int(FLIPS_ALLOWED * done))
    named = f": {'; '.join(flipped)}" if flipped else ""
    finding = f"{len(flipped)} of {done} examples attacked alone came out differently ({allowed} may){named}."
    return [*checks, VerificationCheck("attacked again", len(flipped) <= allowed, finding)]


def _is_broken(attack: Attack, model: nn.Module, images: Dataset, position: int, *, fuse: bool) -> bool:
    inputs = ModelInputs(model)
    x, y, key = inputs.place(
        images.images[position : position + 1], images.labels[position : position + 1], torch.tensor([position])
    )
    network = inputs.in_float32(model)
    result = run_attack(attack, network, x, y, key, fuse=fuse)
    with torch.no_grad():
        return bool(as_logits(network(result.x_adv)).argmax(1) != y)
