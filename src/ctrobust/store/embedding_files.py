"""Embeddings on disk: the logits of a network on some images, and their places in two dimensions."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctrobust.errors import RunError
from ctrobust.store.arrays import Arrays, read_arrays


@dataclass(frozen=True, eq=False)
class Embedding:
    """A two-dimensional embedding of N images of C classes.

    Attributes:
        points: (N, 2) places.
        labels: (N,) classes.
        logits: (N, C) outputs of the network.
    """

    points: NDArray[Any]
    labels: NDArray[Any]
    logits: NDArray[Any]


def read_embedding(file: Path, classes: int | None = None) -> Embedding:
    """Read an embedding and check shapes and types of its arrays, and the number of classes where one is given."""
    arrays = read_arrays(file)
    if (problem := _problem(arrays, classes)) is not None:
        raise RunError(f"{file} is damaged: {problem}; remove it to have it made again")
    return Embedding(arrays["points"], arrays["labels"], arrays["logits"])


def _problem(arrays: Arrays, classes: int | None) -> str | None:
    if missing := sorted({"points", "labels", "logits"} - arrays.keys()):
        return f"it has no {', '.join(missing)}"
    points, labels, logits = (arrays[name] for name in ("points", "labels", "logits"))
    count = len(labels) if labels.ndim == 1 else 0
    if not count or points.shape != (count, 2) or logits.ndim != 2 or len(logits) != count or not logits.shape[1]:
        return f"points {points.shape}, labels {labels.shape} and logits {logits.shape}, expected (N, 2), (N,), (N, C)"
    if classes is not None and logits.shape[1] != classes:
        return f"its logits are of {logits.shape[1]} classes, those of the run are {classes}"
    if labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= logits.shape[1]:
        return (
            f"its labels are {labels.dtype} from {labels.min()} to {labels.max()}, expected 0 to {logits.shape[1] - 1}"
        )
    if not (np.isfinite(points).all() and np.isfinite(logits).all()):
        return "some of its numbers are not finite"
    return None
