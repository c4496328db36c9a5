"""Outcomes on disk: a compact .npz file and a .json record beside it.

The clean outcomes of a network (labels, predictions and class probabilities in single precision) are one file, and each
attack on the same examples is another that refers to it. Class probabilities under attack are kept in half precision,
and only of the examples that were attacked: those that are correctly classified without an attack.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctrobust.errors import RunError
from ctrobust.outcomes import Evaluation
from ctrobust.specs import EvaluationSpec, spec_hash
from ctrobust.store.arrays import Arrays, read_arrays, write_arrays
from ctrobust.store.records import EvaluationRecord, OutcomeSummary, read_record, write_record

_CLEAN = ("labels", "clean_probabilities", "clean_prediction")
_ATTACKED = ("prediction", "distance", "forwards", "backwards", "unconfirmed", "probabilities")
_TYPES: dict[str, Any] = {
    "labels": np.int64, "clean_probabilities": np.float32, "probabilities": np.float32, "clean_prediction": np.int64,
    "prediction": np.int64, "distance": np.float32, "forwards": np.int64, "backwards": np.int64,
    "unconfirmed": np.bool_,
}  # fmt: skip


@dataclass(frozen=True)
class EvaluationFacts:
    """What is known of an evaluation besides its outcomes; None is unknown. `EvaluationRecord` explains the fields."""

    classes: Sequence[str] | None = None
    seconds: float | None = None
    cpu_seconds: float | None = None
    environment: dict[str, Any] | None = None
    fused: bool | None = None
    fused_logit_difference: float | None = None
    left_out: Sequence[str] | None = None


@dataclass(frozen=True)
class StoredEvaluation:
    """One evaluation on disk.

    Attributes:
        file: the .npz file.
        record: what its .json file holds.
    """

    file: Path
    record: EvaluationRecord

    @classmethod
    def read(cls, file: Path) -> "StoredEvaluation":
        """Read the record beside an .npz file of outcomes; the arrays are read when `evaluation` is first used."""
        return cls(file, read_record(file.with_suffix(".json"), EvaluationRecord))

    @property
    def attack(self) -> str:
        """The canonical text of the attack, "none" for clean images."""
        return self.record.spec.attack

    @cached_property
    def evaluation(self) -> Evaluation:
        """The outcome of every example."""
        arrays = read_arrays(self.file, self.record.arrays_sha256)
        try:
            if self.record.clean is not None:
                arrays = _with_unattacked({**arrays, **self._read_clean(self.record.clean)})
            else:
                arrays = _without_attack(arrays)
            typed = {name: array.astype(_TYPES[name]) for name, array in arrays.items()}
            found = Evaluation.from_arrays(typed, self.attack, self.record.broken_by)
        except (ValueError, KeyError, IndexError) as error:
            raise RunError(f"{self.file} is damaged: {error}; remove it to have it made again") from None
        if len(found) != self.record.summary.count:
            raise RunError(
                f"{self.file} holds {len(found)} examples and its record {self.record.summary.count}; "
                "remove both to have them made again"
            )
        if (limit := self.record.spec.limit) is not None and len(found) > limit:
            raise RunError(
                f"{self.file} holds {len(found)} examples and is of the first {limit}; "
                "remove it and the .json beside it to have them made again"
            )
        return found

    def _read_clean(self, name: str) -> Arrays:
        """Read the clean outcomes of the same examples, which are beside this file."""
        try:
            clean = StoredEvaluation.read(self.file.with_name(name))
            return read_arrays(clean.file, clean.record.arrays_sha256)
        except RunError as error:
            raise RunError(f"{self.file} refers to clean outcomes that cannot be used: {error}") from None


def write_outcomes(
    file: Path,
    spec: EvaluationSpec,
    evaluation: Evaluation,
    clean: Path | None,
    facts: EvaluationFacts,
    *,
    keep_probabilities: bool = True,
) -> StoredEvaluation:
    """Write the outcomes of an attack, or with `clean` None those of clean images, and the record beside them."""
    arrays = evaluation.arrays()
    if clean is None:
        kept, probabilities = {name: _smallest(arrays[name]) for name in _CLEAN}, "single"
    else:
        kept = {name: _smallest(arrays[name]) for name in _ATTACKED if name in arrays}
        probabilities = "half" if keep_probabilities and "probabilities" in kept else "none"
        if probabilities == "half":
            kept["probabilities"] = kept["probabilities"][evaluation.clean_correct].astype(np.float16)
        else:
            kept.pop("probabilities", None)
    digest = write_arrays(file, kept)
    record = EvaluationRecord(
        hash=spec_hash(spec),
        spec=spec,
        arrays_sha256=digest,
        clean=None if clean is None else clean.name,
        probabilities=probabilities,
        classes=None if facts.classes is None else tuple(facts.classes),
        summary=OutcomeSummary.model_validate(evaluation.summary()),
        seconds=facts.seconds,
        cpu_seconds=facts.cpu_seconds,
        environment=facts.environment,
        fused=facts.fused,
        fused_logit_difference=facts.fused_logit_difference,
        left_out=None if facts.left_out is None else tuple(facts.left_out),
        broken_by=None if evaluation.broken_by is None else dict(evaluation.broken_by),
    )
    write_record(file.with_suffix(".json"), record)
    return StoredEvaluation(file, record)


def _smallest(array: NDArray[Any]) -> NDArray[Any]:
    """Integers in the smallest unsigned type that holds them; anything else as it is."""
    if not np.issubdtype(array.dtype, np.integer):
        return array
    return array.astype(np.min_scalar_type(int(array.max())))


def _with_unattacked(arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Fill in the probabilities of examples that were not attacked, which are the clean ones."""
    if "probabilities" not in arrays:
        return arrays
    attacked = arrays["clean_prediction"] == arrays["labels"]
    if attacked.shape != arrays["clean_probabilities"].shape[:1] or attacked.sum() != len(arrays["probabilities"]):
        raise ValueError(f"it has probabilities of {len(arrays['probabilities'])} examples, {attacked.sum()} expected")
    filled = arrays["clean_probabilities"].copy()
    filled[attacked] = arrays["probabilities"]
    return {**arrays, "probabilities": filled}


def _without_attack(arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The outcomes of clean images: attacked and clean are equal, nothing was spent and no image moved."""
    count = len(arrays.get("labels", ()))
    zeros = np.zeros(count, dtype=np.int64)
    return {
        **arrays,
        "prediction": arrays["clean_prediction"],
        "probabilities": arrays["clean_probabilities"],
        "distance": zeros,
        "forwards": zeros,
        "backwards": zeros,
        "unconfirmed": zeros,
    }
