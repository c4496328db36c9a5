"""Evaluations of a trained network, each done once: what is stored in its run directory is not done again."""

import contextlib
import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ctrobust import attacks as attacking
from ctrobust import data as datasets
from ctrobust.attacks import Attack, parse
from ctrobust.attacks.stages import left_out
from ctrobust.data import Dataset
from ctrobust.errors import InputError, RunError
from ctrobust.evaluation import evaluate_each
from ctrobust.evaluation.evaluator import ProgressCallback
from ctrobust.models import load, weights_path
from ctrobust.models.tensor_files import read_tensors
from ctrobust.outcomes import Evaluation
from ctrobust.specs import EvaluationSpec
from ctrobust.store import RunDirectory, read_arrays, write_arrays


@dataclass(frozen=True, eq=False)
class StoredEvaluation:
    """One attack on a network.

    Attributes:
        attack: its canonical text, or "none".
        evaluation: the outcomes.
        file: where they are kept, None for a weights file outside a run directory.
        seconds: what it took; None where the outcomes were stored before.
    """

    attack: str
    evaluation: Evaluation
    file: Path | None
    seconds: float | None

    @property
    def left_out(self) -> tuple[str, ...]:
        """What an ensemble did not try, because the network has too few classes for it."""
        return () if self.attack == "none" else left_out(parse(self.attack), self.evaluation.probabilities.shape[1])


class _Partial:
    """The state of an evaluation under way, in a file beside the one that will hold its outcomes."""

    def __init__(self, outcomes: Path | None) -> None:
        self.file = None if outcomes is None else outcomes.with_suffix(".partial.npz")

    def load(self) -> dict[str, NDArray[Any]] | None:
        """What was saved last."""
        return read_arrays(self.file) if self.file is not None and self.file.exists() else None

    def save(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Atomically, in the place of what was there."""
        if self.file is not None:
            write_arrays(self.file, arrays)

    def remove(self) -> None:
        """The outcomes are there."""
        if self.file is not None:
            self.file.unlink(missing_ok=True)


def expand(attacks: Sequence[str], radii: Sequence[str]) -> list[Attack]:
    """Each attack's text, those without eps once for each radius.

    Example:
        >>> [str(attack) for attack in expand(["fgsm", "pgd:eps=0.1"], ["2/255", "8/255"])]
        ['fgsm:eps=2/255', 'fgsm:eps=8/255', 'pgd:eps=0.1']
    """
    texts, used = [], False
    for text in attacks:
        _, _, fields = text.partition(":")
        given = any(field.partition("=")[0].strip() == "eps" for field in fields.split(","))
        if given or not radii:
            texts.append(text)
        else:
            used = True
            texts += [f"{text}{',' if fields else ':'}eps={radius}" for radius in radii]
    if attacks and radii and not used:
        raise InputError(f"eps {', '.join(radii)} is for attacks that name none; all given name their own")
    return list(dict.fromkeys(parse(text) for text in texts))


def evaluation_data(path: Path, name: str | None, root: Path | None, split: str = "test") -> Dataset:
    """The data that a network was trained for, or another with as many channels and classes."""
    file = weights_path(path)
    _, metadata = read_tensors(file)
    if not metadata.keys() >= {"data", "in_channels", "num_classes"}:
        raise RunError(
            f"{file} holds no trained network; name a run directory, its model.safetensors or best.safetensors"
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
    path: Path,
    data: Dataset,
    attacks: Sequence[Attack | None],
    *,
    limit: int | None = None,
    chunk: int = 256,
    progress: ProgressCallback | None = None,
) -> Iterator[StoredEvaluation]:
    """Attack a network, yielding each attack's outcomes when they are there and stored; None is no attack."""
    file = weights_path(path)
    run = _run_of(file)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    texts = ["none" if attack is None else str(attack) for attack in attacks]
    for text in texts:
        if text != "none":
            parse(text)  # a loss that is a Python function has no text, and so no outcomes can be kept under it
    if run is not None:
        run.check_writable()
    common: dict[str, object] = {
        "data": data.name,
        "split": data.split,
        "limit": limit,
        "chunk": chunk,
        "weights": digest,
    }
    if not data.verified:
        common["contents"] = data.digest()
    revisions = [0 if attack is None else attacking.revision(attack) for attack in attacks]
    specs = [
        EvaluationSpec.model_validate({**common, "attack": text, "revision": number})
        for text, number in zip(texts, revisions, strict=True)
    ]
    files = [run.outcomes_file(spec) if run else None for spec in specs]
    missing = [attack for attack, kept in zip(attacks, files, strict=True) if kept is None or not kept.exists()]
    stores = [_Partial(kept) for kept in files if kept is None or not kept.exists()]
    fresh = evaluate_each(load(file), data, missing, limit=limit, chunk=chunk, progress=progress, stores=stores)
    begun = time.monotonic()
    with contextlib.ExitStack() as held:
        for kept in dict.fromkeys(files):
            if run is not None and kept is not None and not kept.exists():
                held.enter_context(run.writing(kept))
        for text, attack, kept in zip(texts, attacks, files, strict=True):
            if attack not in missing and kept is not None:
                yield StoredEvaluation(text, Evaluation.from_arrays(read_arrays(kept)), kept, None)
                continue
            evaluation = next(fresh)
            if kept is not None:
                write_arrays(kept, evaluation.arrays())
                _Partial(kept).remove()
            yield StoredEvaluation(text, evaluation, kept, time.monotonic() - begun)
            begun = time.monotonic()
