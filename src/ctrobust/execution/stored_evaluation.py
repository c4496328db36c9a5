"""Evaluations of a trained network, each run once: outcomes that its run directory holds are not computed again."""

import contextlib
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from torch import nn

from ctrobust import data as datasets
from ctrobust.attacks import Attack, parse, revision
from ctrobust.attacks.stages import left_out
from ctrobust.data import Dataset
from ctrobust.errors import InputError, RunError
from ctrobust.evaluation import Evaluator, NoStateStore, ProgressCallback, RepeatedMean, StateStore
from ctrobust.execution.evaluation_request import EvaluationRequest
from ctrobust.execution.partial_outcomes import PartialOutcomes
from ctrobust.execution.sharded_evaluation import ShardedRunner, Sharding, sharded
from ctrobust.models import UserModel, WeightsFile
from ctrobust.outcomes import Evaluation
from ctrobust.specs import EvaluationSpec, is_factory
from ctrobust.store import EvaluationFacts, RunDirectory, StoredEvaluation, write_outcomes
from ctrobust.training import environment

AttackedNetwork = WeightsFile | UserModel
"""A network that `build` gives, named by its `sha256`."""


@dataclass(frozen=True, eq=False)
class EvaluationRow:
    """One attack on a network.

    Attributes:
        attack: its canonical text, or "none".
        evaluation: the outcomes.
        file: where they are stored; None for a weights file outside a run directory.
        seconds: the wall-clock seconds that the evaluation took; None if its outcomes were stored before.
        facts: what is known besides the outcomes.
        repeats: the passes that were averaged, if the network draws at random.
    """

    attack: str
    evaluation: Evaluation
    file: Path | None
    seconds: float | None
    facts: EvaluationFacts = field(default_factory=EvaluationFacts)
    repeats: int = 1

    @property
    def left_out(self) -> tuple[str, ...]:
        """The stages that an ensemble skipped because the network has too few classes."""
        return tuple(self.facts.left_out or ())


def expand(attacks: Sequence[str], radii: Sequence[str]) -> list[Attack]:
    """Parse the attacks; one whose text has no eps is repeated for each radius.

    Example:
        >>> [str(attack) for attack in expand(["fgsm", "pgd:eps=0.1"], ["2/255", "8/255"])]
        ['fgsm:eps=2/255', 'fgsm:eps=8/255', 'pgd:eps=0.1']
    """
    texts, used = [], False
    for text in attacks:
        _, _, fields = text.partition(":")
        given = any(part.partition("=")[0].strip() == "eps" for part in fields.split(","))
        if given or not radii:
            texts.append(text)
        else:
            used = True
            texts += [f"{text}{',' if fields else ':'}eps={radius}" for radius in radii]
    if attacks and radii and not used:
        raise InputError(f"eps {', '.join(radii)} is for attacks without eps, but each given attack has its own")
    return list(dict.fromkeys(parse(text) for text in texts))


def read_weights(path: Path, factory: str | None = None) -> WeightsFile:
    """Read the weights of a run directory, or a weights file, once for all that follows.

    `factory` builds the network if it is one of the user's own.
    """
    weights = WeightsFile.read(path, factory)
    if factory is not None and (name := _network_name(weights)) is not None and not is_factory(name):
        raise InputError(f"--model is for a network of your own; {path} holds {name}, which ctrobust builds")
    return weights


def _network_name(weights: WeightsFile) -> str | None:
    """The network that the metadata name; damaged ones name none."""
    model = weights.metadata.get("model")
    name = model.get("name", "mnistnet") if isinstance(model, dict) else None
    return name if isinstance(name, str) else None


def evaluation_data(path: Path | WeightsFile, name: str | None, root: Path | None, split: str = "test") -> Dataset:
    """Load the data that a network was trained for, or another data set with as many channels and classes."""
    weights = path if isinstance(path, WeightsFile) else WeightsFile.read(path)
    metadata = weights.metadata
    if not metadata.keys() >= {"data", "in_channels", "num_classes"}:
        raise RunError(
            f"{weights.path} holds no trained network; name a run directory, its model.safetensors or best.safetensors"
        )
    found = datasets.load(name or _named_data(weights), split, root)
    if (found.in_channels, found.num_classes) != (metadata["in_channels"], metadata["num_classes"]):
        raise InputError(
            f"{found.name} has {found.in_channels} channels and {found.num_classes} classes; "
            f"the network takes {metadata['in_channels']} and {metadata['num_classes']}"
        )
    return found


def _named_data(weights: WeightsFile) -> str:
    """The data set that a weights file names, if it is a published one: a file does not choose what else is read."""
    data = str(weights.metadata["data"])
    if data in datasets.DATASETS:
        return data
    raise InputError(
        f"{weights.path} was trained on {data!r}; data of your own are read only where you name them. "
        f"Add to the command:\n  --data {shlex.quote(data)}"
    )


def attacked_model(network: AttackedNetwork) -> nn.Module:
    """The network; of one that draws at random, the mean over repeated passes is attacked and classifies."""
    model = network.build()
    return RepeatedMean(model, network.repeats) if network.repeats > 1 else model


def run_of(network: AttackedNetwork) -> RunDirectory | None:
    """The run whose last or best weights these are; None for a network of the user that was trained elsewhere."""
    if isinstance(network, UserModel):
        return None
    file = network.path.absolute()
    runs = (RunDirectory(folder) for folder in file.parents[:2])
    return next((run for run in runs if run.spec_file.exists() and file in (run.model_file, run.best_file)), None)


def evaluate_stored(
    path: Path | AttackedNetwork,
    data: Dataset,
    attacks: Sequence[Attack | None],
    *,
    limit: int | None = None,
    chunk: int = 256,
    fuse: bool = True,
    keep_probabilities: bool = True,
    progress: ProgressCallback | None = None,
    into: RunDirectory | None = None,
    sharding: Sharding | None = None,
) -> Iterator[EvaluationRow]:
    """Evaluate a network under each attack (None is no attack), store the outcomes, and yield them when they are done.

    Outcomes are stored in the run directory `into`, by default that of the weights. Stored outcomes are read instead of
    computed, except those of a fused copy where `fuse` is false. The clean outcomes of the same examples are stored
    once beside them. With `sharding` the batches of an attack are spread over workers.
    """
    weights = WeightsFile.read(path) if isinstance(path, Path) else path
    run = into or run_of(weights)
    specs = [_spec(weights, data, attack, limit, chunk) for attack in attacks]
    if run is None:
        evaluator = Evaluator(
            attacked_model(weights), data, attacks, limit=limit, chunk=chunk, fuse=fuse, progress=progress
        )
        with _runner(sharding, weights, evaluator) as runner:
            for attack, spec in zip(attacks, specs, strict=True):
                evaluation, facts = _timed(evaluator, attack, NoStateStore(), data, runner)
                yield EvaluationRow(spec.attack, evaluation, None, facts.seconds, facts, spec.repeats)
        return
    run.check_writable()
    clean_spec = _spec(weights, data, None, limit, chunk)
    request = EvaluationRequest(run, data, clean_spec, fuse)
    missing = [attack for attack, spec in zip(attacks, specs, strict=True) if request.stored(spec) is None]
    evaluator = Evaluator(
        attacked_model(weights), data, missing, limit=limit, chunk=chunk, fuse=fuse, progress=progress
    )
    with contextlib.ExitStack() as held:
        for attack in dict.fromkeys(missing):
            file = run.outcomes_file(_spec(weights, data, attack, limit, chunk))
            held.enter_context(run.writing(file))
        runner = held.enter_context(_runner(sharding, weights, evaluator))
        for attack, spec in zip(attacks, specs, strict=True):
            found = request.stored(spec)
            if found is not None:
                yield EvaluationRow(spec.attack, found.evaluation, found.file, None, _facts_of(found), spec.repeats)
                continue
            clean = None if attack is None else _clean_outcomes(request, evaluator)
            partial, started = PartialOutcomes(run.outcomes_file(spec)), time.monotonic()
            resumed = partial.begun
            evaluation, facts = _timed(evaluator, attack, partial, data, runner)
            if resumed:  # the time of the earlier process is not known
                facts = replace(facts, seconds=None, cpu_seconds=None)
            if clean is not None:
                evaluation = _with_clean_outcomes(evaluation, clean.evaluation)
            stored = write_outcomes(
                run.outcomes_file(spec), spec, evaluation, None if clean is None else clean.file, facts,
                keep_probabilities=keep_probabilities,
            )  # fmt: skip
            partial.remove()
            seconds = time.monotonic() - started
            yield EvaluationRow(spec.attack, stored.evaluation, stored.file, seconds, facts, spec.repeats)


def _clean_outcomes(request: EvaluationRequest, evaluator: Evaluator) -> StoredEvaluation:
    """The outcomes without an attack, which all attacks on the same examples share; made if they are not stored."""
    run, spec = request.run, request.clean_spec
    with run.writing_clean_outcomes():  # another process may attack the same network
        found = request.stored(spec)
        if found is None:
            evaluation, facts = _timed(evaluator, None, NoStateStore(), request.data)
            found = write_outcomes(run.outcomes_file(spec), spec, evaluation, None, facts)
        return found


def _with_clean_outcomes(evaluation: Evaluation, clean: Evaluation) -> Evaluation:
    """The evaluation with the stored outcomes of clean images, which another number of threads may round otherwise.

    An example that only the stored outcomes classify correctly was not attacked and counts as broken.
    """
    return replace(
        evaluation, clean_probabilities=clean.clean_probabilities, clean_prediction=clean.clean_prediction
    )  # fmt: skip


def _runner(
    sharding: Sharding | None, weights: AttackedNetwork, evaluator: Evaluator
) -> contextlib.AbstractContextManager[ShardedRunner | None]:
    return contextlib.nullcontext() if sharding is None else sharded(sharding, weights, evaluator)


def _spec(
    weights: AttackedNetwork, data: Dataset, attack: Attack | None, limit: int | None, chunk: int
) -> EvaluationSpec:
    text = "none" if attack is None else str(attack)
    if attack is not None:
        parse(text)  # an attack with a Python function as its loss has no text under which outcomes can be stored
    return EvaluationSpec(
        data=data.name,
        split="train" if data.split == "train" else "test",
        limit=limit,
        attack=text,
        chunk=chunk,
        weights=weights.sha256[:16],
        contents=None if data.verified else data.digest(),
        revision=0 if attack is None else revision(attack),
        repeats=weights.repeats,
    )


def _timed(
    evaluator: Evaluator,
    attack: Attack | None,
    store: StateStore,
    data: Dataset,
    runner: ShardedRunner | None = None,
) -> tuple[Evaluation, EvaluationFacts]:
    if attack is not None:
        evaluator.clean_logits()  # and the fused copy: not part of the attack's time
    wall, cpu = time.monotonic(), time.process_time()
    of_workers = 0.0 if runner is None else runner.cpu_seconds
    evaluation = evaluator.run(attack, store, runner)
    cpu_seconds = time.process_time() - cpu + (0.0 if runner is None else runner.cpu_seconds - of_workers)
    fused = evaluator.uses_fused(attack)
    facts = EvaluationFacts(
        classes=data.classes,
        seconds=round(time.monotonic() - wall, 3),
        cpu_seconds=round(cpu_seconds, 3),
        environment={**environment(), "workers": runner.workers} if runner and runner.workers else environment(),
        fused=fused,
        fused_logit_difference=evaluator.fused.logit_difference if fused and evaluator.fused is not None else None,
        left_out=() if attack is None else left_out(attack, evaluation.num_classes),
    )
    return evaluation, facts


def _facts_of(stored: StoredEvaluation) -> EvaluationFacts:
    record = stored.record
    return EvaluationFacts(
        classes=record.classes, seconds=record.seconds, cpu_seconds=record.cpu_seconds, environment=record.environment,
        fused=record.fused, fused_logit_difference=record.fused_logit_difference, left_out=record.left_out,
    )  # fmt: skip
