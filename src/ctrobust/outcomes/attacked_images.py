"""Attacked images of a few examples, for people to look at."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class AttackedImages:
    """n examples, clean and attacked, with the outputs of the model.

    Attributes:
        positions: (n,) int64, the positions of the examples in the data set.
        labels: (n,) int64.
        clean, attacked: (n, C, H, W) float in [0, 1].
        clean_probabilities, probabilities: (n, classes).
        classes: the names of the classes.
        attack: the canonical text of the attack.
    """

    positions: NDArray[np.int64]
    labels: NDArray[np.int64]
    clean: NDArray[np.floating[Any]]
    attacked: NDArray[np.floating[Any]]
    clean_probabilities: NDArray[np.floating[Any]]
    probabilities: NDArray[np.floating[Any]]
    classes: Sequence[str]
    attack: str

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def broken(self) -> NDArray[np.bool_]:
        """(n,) whether the attacked image is misclassified."""
        wrong: NDArray[np.bool_] = np.not_equal(self.probabilities.argmax(1), self.labels)
        return wrong
