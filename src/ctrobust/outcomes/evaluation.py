"""What an evaluation found, example by example."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctrobust.errors import InputError
from ctrobust.outcomes.intervals import Interval, wilson
from ctrobust.outcomes.threshold import ThresholdStatistics, attacked_rank, threshold_statistics


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Outcomes of N examples, clean and attacked; without an attack the two are the same.

    Attributes:
        labels: (N,) int64.
        clean_probabilities: (N, C) float32.
        probabilities: (N, C) float32, under attack.
        clean_prediction: (N,) int64, the class of the largest logit: probabilities of nearby logits round to a tie.
        prediction: (N,) int64, under attack.
        distance: (N,) float32, how far the attacked image is, in the attack's norm.
        forwards: (N,) int64, forward passes the attack spent.
        backwards: (N,) int64.
        unconfirmed: (N,) bool, where the attack reported success and the model, asked again, was right after all: float
            kernels round differently in batches of another shape. Such an example counts as not fooled.
    """

    labels: NDArray[np.int64]
    clean_probabilities: NDArray[np.float32]
    probabilities: NDArray[np.float32]
    clean_prediction: NDArray[np.int64]
    prediction: NDArray[np.int64]
    distance: NDArray[np.float32]
    forwards: NDArray[np.int64]
    backwards: NDArray[np.int64]
    unconfirmed: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def clean_correct(self) -> NDArray[np.bool_]:
        """(N,) whether the clean image is classified right."""
        return np.equal(self.clean_prediction, self.labels)

    @property
    def robust(self) -> NDArray[np.bool_]:
        """(N,) whether the clean and the attacked image are both classified right."""
        return self.clean_correct & np.equal(self.prediction, self.labels)

    @property
    def accuracy(self) -> float:
        """Share of clean images classified right."""
        return float(self.clean_correct.mean())

    @property
    def robust_accuracy(self) -> float:
        """Share of images classified right, clean and attacked."""
        return float(self.robust.mean())

    @property
    def attack_success_rate(self) -> float:
        """1 - robust accuracy, over all images, as in the paper's table 7."""
        return 1.0 - self.robust_accuracy

    @property
    def accuracy_interval(self) -> Interval:
        """Wilson interval of the accuracy, 95%."""
        return wilson(int(self.clean_correct.sum()), len(self))

    @property
    def interval(self) -> Interval:
        """Wilson interval of the robust accuracy, 95%."""
        return wilson(int(self.robust.sum()), len(self))

    @cached_property
    def threshold(self) -> ThresholdStatistics:
        """Confidence-threshold statistics of the clean outputs."""
        return threshold_statistics(self.clean_probabilities, self.labels)

    @cached_property
    def attacked_rank(self) -> NDArray[np.int64]:
        """(N,) rank in the clean output, from 1, of the class that the attacked image falls into; 0 where right."""
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
            "largest_distance": float(self.distance.max()),
            "forwards": int(self.forwards.sum()),
            "backwards": int(self.backwards.sum()),
            "unconfirmed": int(self.unconfirmed.sum()),
            "threshold": self.threshold.to_dict(),
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The per-example arrays by name, for an .npz file."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "Evaluation":
        """The inverse of `arrays`."""
        names = {field.name for field in fields(cls)}
        if set(arrays) != names:
            raise InputError(f"outcomes hold {', '.join(sorted(names))}; got {', '.join(sorted(arrays))}")
        shapes = {name: array.shape for name, array in arrays.items()}
        rows, classes = len(arrays["labels"].reshape(-1)), shapes["probabilities"][1:]
        expected = {name: (rows, *(classes if "probabilities" in name else ())) for name in names}
        if shapes != expected or rows == 0 or len(classes) != 1:
            raise InputError(f"outcomes are (N,) and probabilities (N, C), N >= 1; got {shapes}")
        return cls(**arrays)
