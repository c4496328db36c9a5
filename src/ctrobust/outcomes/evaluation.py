"""The outcome of every example of one evaluation."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctrobust.errors import InputError
from ctrobust.outcomes.intervals import Interval, wilson
from ctrobust.outcomes.threshold import ThresholdStatistics, attacked_rank, threshold_statistics


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """Outcomes of N examples, clean and attacked; without an attack the two are equal.

    Attributes:
        labels: (N,) int64.
        clean_probabilities: (N, C) float32.
        probabilities: (N, C) float32 under attack; None where they were not stored.
        clean_prediction: (N,) int64, the class of the largest logit. Probabilities of nearby logits can round to a tie.
        prediction: (N,) int64, under attack.
        distance: (N,) float32, the distance of the attacked image from the clean one in the attack's norm.
        forwards: (N,) int64, the forward passes that the attack spent.
        backwards: (N,) int64, the backward passes.
        unconfirmed: (N,) bool, whether the attack reported a success that the model, called again, classified
            correctly: kernels round differently in batches of another shape. Such an example counts as robust.
        attack: the canonical text of the attack, "none" for clean images; None where it is not known.
        broken_by: of an ensemble, the text of each of its attacks -> the number of examples that it broke. Each attack
            is run on the examples that those before it left. None for a single attack, and where it is not known.
    """

    labels: NDArray[np.int64]
    clean_probabilities: NDArray[np.float32]
    probabilities: NDArray[np.float32] | None
    clean_prediction: NDArray[np.int64]
    prediction: NDArray[np.int64]
    distance: NDArray[np.float32]
    forwards: NDArray[np.int64]
    backwards: NDArray[np.int64]
    unconfirmed: NDArray[np.bool_]
    attack: str | None = None
    broken_by: Mapping[str, int] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        attack = "" if self.attack is None else ", no attack" if self.attack == "none" else f", {self.attack}"
        return (
            f"Evaluation of {len(self)} examples, {self.num_classes} classes{attack}\n"
            f"  accuracy        {_percent(self.accuracy, self.accuracy_interval)}\n"
            f"  robust accuracy {_percent(self.robust_accuracy, self.interval)}"
        )

    @property
    def num_classes(self) -> int:
        return int(self.clean_probabilities.shape[1])

    @property
    def clean_correct(self) -> NDArray[np.bool_]:
        """(N,) whether the clean image is classified correctly."""
        return np.equal(self.clean_prediction, self.labels)

    @property
    def robust(self) -> NDArray[np.bool_]:
        """(N,) whether the clean and the attacked image are both classified correctly."""
        return self.clean_correct & np.equal(self.prediction, self.labels)

    @property
    def accuracy(self) -> float:
        """The share of clean images classified correctly."""
        return float(self.clean_correct.mean())

    @property
    def robust_accuracy(self) -> float:
        """The share of images classified correctly both clean and attacked."""
        return float(self.robust.mean())

    @property
    def attack_success_rate(self) -> float:
        """1 - robust accuracy over all images, clean errors included, as in the paper's table 7."""
        return 1.0 - self.robust_accuracy

    @property
    def success_on_correct(self) -> float | None:
        """The share of correctly classified images that the attack breaks; None where no image is correct."""
        correct = int(self.clean_correct.sum())
        return None if correct == 0 else 1.0 - int(self.robust.sum()) / correct

    @property
    def accuracy_interval(self) -> Interval:
        """The 95% Wilson interval of the accuracy."""
        return wilson(int(self.clean_correct.sum()), len(self))

    @property
    def interval(self) -> Interval:
        """The 95% Wilson interval of the robust accuracy."""
        return wilson(int(self.robust.sum()), len(self))

    @cached_property
    def threshold(self) -> ThresholdStatistics:
        """Confidence-threshold statistics of the clean outputs."""
        return threshold_statistics(self.clean_probabilities, self.labels)

    @cached_property
    def attacked_rank(self) -> NDArray[np.int64]:
        """(N,) the rank in the clean output, from 1, of the class predicted under attack; 0 where it is the label."""
        return attacked_rank(self.clean_probabilities, self.labels, self.prediction)

    def summary(self) -> dict[str, Any]:
        """The figures as plain values for JSON."""
        clean, robust = self.accuracy_interval, self.interval
        return {
            "count": len(self),
            "accuracy": self.accuracy,
            "accuracy_interval": [clean.low, clean.high],
            "robust_accuracy": self.robust_accuracy,
            "interval": [robust.low, robust.high],
            "attack_success_rate": self.attack_success_rate,
            "success_on_correct": self.success_on_correct,
            "largest_distance": float(self.distance.max()),
            "forwards": int(self.forwards.sum()),
            "backwards": int(self.backwards.sum()),
            "unconfirmed": int(self.unconfirmed.sum()),
            "threshold": self.threshold.to_dict(),
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The per-example arrays by name, without those that were not stored."""
        found = {name: getattr(self, name) for name in _array_names()}
        return {name: array for name, array in found.items() if array is not None}

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], attack: str | None = None, broken_by: Mapping[str, int] | None = None
    ) -> "Evaluation":
        """The inverse of `arrays`; checks names and shapes."""
        names = set(_array_names())
        if set(arrays) | {"probabilities"} != names:
            raise InputError(f"outcomes hold {', '.join(sorted(names))}; got {', '.join(sorted(arrays))}")
        shapes = {name: array.shape for name, array in arrays.items()}
        rows, classes = len(arrays["labels"].reshape(-1)), shapes["clean_probabilities"][1:]
        expected = {name: (rows, *(classes if "probabilities" in name else ())) for name in arrays}
        if shapes != expected or rows == 0 or len(classes) != 1:
            raise InputError(f"outcomes are (N,) and probabilities (N, C), N >= 1; got {shapes}")
        found: dict[str, Any] = {"probabilities": None, **arrays}
        return cls(**found, attack=attack, broken_by=broken_by)


def _array_names() -> list[str]:
    """The fields that hold one value or row per example."""
    return [field.name for field in fields(Evaluation) if field.name not in ("attack", "broken_by")]


def _percent(share: float, interval: Interval) -> str:
    return f"{100 * share:.1f}% [{100 * interval.low:.1f}, {100 * interval.high:.1f}]"
