"""Evaluations of a trained network, each run once: outcomes that its run directory holds are not computed again."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ctrobust import data as datasets
from ctrobust.attacks import Attack, parse, revision
from ctrobust.attacks.stages import left_out
from ctrobust.data import Dataset
from ctrobust.errors import InputError, RunError
from ctrobust.evaluation import Evaluator, NoStateStore, ProgressCallback, StateStore
from ctrobust.models import WeightsFile
from ctrobust.outcomes import Evaluation
from ctrobust.specs import EvaluationSpec
from ctrobust.store import EvaluationFacts, Journal, RunDirectory, StoredEvaluation, write_arrays, write_outcomes
from ctrobust.store.arrays import read_arrays
from ctrobust.training import environment


@dataclass(frozen=True, eq=False)
class EvaluationRow:
    """One attack on a network.

    Attributes:
        attack: its canonical text, or "none".
        evaluation: the outcomes.
        file: where they are stored; None for a weights file outside a run directory.
        seconds: the wall-clock seconds that the evaluation took; None if its outcomes were stored before.
        facts: what is known besides the outcomes.
    """

    attack: str
    evaluation: Evaluation
    file: Path | None
    seconds: float | None
    facts: EvaluationFacts = field(default_factory=EvaluationFacts)

    @property
    def left_out(self) -> tuple[str, ...]:
        """The stages that an ensemble skipped because the network has too few classes."""
        return tuple(self.facts.left_out or ())


class _PartialOutcomes:
    """The progress of an evaluation in files beside its outcomes: a journal of batches, and a resume state."""

    def __init__(self, outcomes: Path) -> None:
        self.journal = Journal(outcomes.with_suffix(".partial"))
        self.resume_file = outcomes.with_suffix(".resume")

    def load(self) -> tuple[list[dict[str, NDArray[Any]]], dict[str, NDArray[Any]]]:
        return self.journal.read(), read_arrays(self.resume_file) if self.resume_file.exists() else {}

    def append(self, outcomes: dict[str, NDArray[Any]]) -> None:
        self.journal.append(outcomes)
        self.resume_file.unlink(missing_ok=True)

    def save_resume_state(self, arrays: dict[str, NDArray[Any]]) -> None:
        write_arrays(self.resume_file, arrays)

    @property
    def begun(self) -> bool:
        """Whether an earlier process did a part of the work."""
        return self.journal.path.exists() or self.resume_file.exists()

    def remove(self) -> None:
        self.journal.remove()
        self.resume_file.unlink(missing_ok=True)


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


def read_weights(path: Path) -> WeightsFile:
    """Read the weights of a run directory, or a weights file, once for all that follows."""
    return WeightsFile.read(path)


def evaluation_data(path: Path | WeightsFile, name: str | None, root: Path | None, split: str = "test") -> Dataset:
    """Load the data that a network was trained for, or another data set with as many channels and classes."""
    weights = path if isinstance(path, WeightsFile) else WeightsFile.read(path)
    metadata = weights.metadata
    if not metadata.keys() >= {"data", "in_channels", "num_classes"}:
        raise RunError(
            f"{weights.path} holds no trained network; name a run directory, its model.safetensors or best.safetensors"
        )
    found = datasets.load(name or metadata["data"], split, root)
    if (found.in_channels, found.num_classes) != (metadata["in_channels"], metadata["num_classes"]):
        raise InputError(
            f"{found.name} has {found.in_channels} channels and {found.num_classes} classes; "
            f"the network takes {metadata['in_channels']} and {metadata['num_classes']}"
        )
    return found


def _run_of(weights: Path) -> RunDirectory | None:
    """The run whose last or best weights these are."""
    runs = (RunDirectory(folder) for folder in weights.absolute().parents[:2])
    return next(
        (run for run in runs if run.spec_file.exists() and weights.absolute() in (run.model_file, run.best_file)), None
    )


def evaluate_stored(
    path: Path | WeightsFile,
    data: Dataset,
    attacks: Sequence[Attack | None],
    *,
    limit: int | None = None,
    chunk: int = 256,
    fuse: bool = True,
    keep_probabilities: bool = True,
    progress: ProgressCallback | None = None,
    into: RunDirectory | None = None,
) -> Iterator[EvaluationRow]:
    """Evaluate a network under each attack (None is no attack), store the outcomes, and yield them when they are done.

    Outcomes are stored in the run directory `into`, by default that of the weights. Stored outcomes are read instead of
    computed, except those of a fused copy where `fuse` is false. The clean outcomes of the same examples are stored
    once beside them.
    """
    weights = path if isinstance(path, WeightsFile) else WeightsFile.read(path)
    run = into or _run_of(weights.path)
    specs = [_spec(weights, data, attack, limit, chunk) for attack in attacks]
    if run is None:
        evaluator = Evaluator(weights.build(), data, attacks, limit=limit, chunk=chunk, fuse=fuse, progress=progress)
        for attack, spec in zip(attacks, specs, strict=True):
            evaluation, facts = _timed(evaluator, attack, NoStateStore(), data)
            yield EvaluationRow(spec.attack, evaluation, None, facts.seconds, facts)
        return
    run.check_writable()
    clean_spec = _spec(weights, data, None, limit, chunk)
    missing = [attack for attack, spec in zip(attacks, specs, strict=True) if _stored(run, spec, fuse=fuse) is None]
    evaluator = Evaluator(weights.build(), data, missing, limit=limit, chunk=chunk, fuse=fuse, progress=progress)
    with contextlib.ExitStack() as locks:
        for attack in dict.fromkeys(missing):
            file = run.outcomes_file(_spec(weights, data, attack, limit, chunk))
            locks.enter_context(run.writing(file))
        for attack, spec in zip(attacks, specs, strict=True):
            found = _stored(run, spec, fuse=fuse)
            if found is not None:
                yield EvaluationRow(spec.attack, found.evaluation, found.file, None, _facts_of(found))
                continue
            file = run.outcomes_file(spec)
            clean_file = run.outcomes_file(clean_spec)
            if attack is not None:
                with run.writing_clean_outcomes():  # another process may attack the same network
                    if run.find_evaluation(clean_spec) is None:
                        evaluation, facts = _timed(evaluator, None, NoStateStore(), data)
                        write_outcomes(clean_file, clean_spec, evaluation, None, facts)
            partial, started = _PartialOutcomes(file), time.monotonic()
            resumed = partial.begun
            evaluation, facts = _timed(evaluator, attack, partial, data)
            if resumed:  # the time of the earlier process is not known
                facts = replace(facts, seconds=None, cpu_seconds=None)
            stored = write_outcomes(
                file, spec, evaluation, None if attack is None else clean_file, facts,
                keep_probabilities=keep_probabilities,
            )  # fmt: skip
            partial.remove()
            yield EvaluationRow(spec.attack, stored.evaluation, stored.file, time.monotonic() - started, facts)


def _spec(weights: WeightsFile, data: Dataset, attack: Attack | None, limit: int | None, chunk: int) -> EvaluationSpec:
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
    )


def _stored(run: RunDirectory, spec: EvaluationSpec, *, fuse: bool) -> StoredEvaluation | None:
    """The stored outcomes of a spec; those of a fused copy do not count where it is refused."""
    found = run.find_evaluation(spec)
    return None if found is not None and not fuse and found.record.fused else found


def _timed(
    evaluator: Evaluator, attack: Attack | None, store: StateStore, data: Dataset
) -> tuple[Evaluation, EvaluationFacts]:
    if attack is not None:
        evaluator.clean_logits()  # and the fused copy: not part of the attack's time
    wall, cpu = time.monotonic(), time.process_time()
    evaluation = evaluator.run(attack, store)
    fused = evaluator.uses_fused(attack)
    facts = EvaluationFacts(
        classes=data.classes,
        seconds=round(time.monotonic() - wall, 3),
        cpu_seconds=round(time.process_time() - cpu, 3),
        environment=environment(),
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
