"""Accuracy against the radius of an attack, and the smallest radius that breaks each example."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ctrobust.errors import InputError
from ctrobust.outcomes.intervals import Interval, wilson

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
"""The quantiles of the minimal radius that are reported."""


@dataclass(frozen=True, eq=False)
class RobustnessCurve:
    """N examples attacked at K rising radii; an example that one radius breaks is broken at every larger one.

    Attributes:
        attack: the canonical text of the attack at the largest radius.
        radii: (K,) float64, rising.
        labels: (N,) int64.
        clean_prediction: (N,) int64.
        robust_to: (N,) float64, the largest radius at which the attack did not break the example; 0 if it broke it at
            the first, and -1 if the example is misclassified without an attack.
        broken_at: (N,) float64, the smallest radius at which the attack broke the example; infinity if none did, and 0
            if it is misclassified without an attack. The minimal radius lies above `robust_to` and not above this.
        forwards, backwards: (N,) int64, the passes spent.
    """

    attack: str
    radii: NDArray[np.float64]
    labels: NDArray[np.int64]
    clean_prediction: NDArray[np.int64]
    robust_to: NDArray[np.float64]
    broken_at: NDArray[np.float64]
    forwards: NDArray[np.int64]
    backwards: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def accuracy(self) -> float:
        """The share of clean images classified correctly."""
        return float(np.equal(self.clean_prediction, self.labels).mean())

    @property
    def robust_accuracies(self) -> tuple[float, ...]:
        """The robust accuracy at each radius, which never rises."""
        return tuple(float((self.broken_at > radius).mean()) for radius in self.radii)

    @property
    def intervals(self) -> tuple[Interval, ...]:
        """The 95% Wilson interval of each robust accuracy."""
        return tuple(wilson(int((self.broken_at > radius).sum()), len(self)) for radius in self.radii)

    def minimal_radius(self, quantile: float) -> tuple[float, float]:
        """The bounds of a quantile of the minimal radius, over the correctly classified examples.

        The upper bound is infinite where fewer examples than that are broken at the largest radius.

        Example:
            >>> import numpy as np
            >>> one = np.ones(4, np.int64)
            >>> curve = RobustnessCurve(
            ...     "pgd:eps=0.2", np.array([0.1, 0.2]), one, one, np.array([0.0, 0.1, 0.1, 0.2]),
            ...     np.array([0.1, 0.2, 0.2, np.inf]), one, one,
            ... )
            >>> curve.robust_accuracies, curve.minimal_radius(0.5)
            ((0.75, 0.25), (0.1, 0.2))
        """
        if not 0 < quantile < 1:
            raise InputError(f"a quantile lies strictly between 0 and 1, got {quantile}")
        correct = np.equal(self.clean_prediction, self.labels)
        if not correct.any():
            return 0.0, 0.0
        place = int(np.ceil(quantile * correct.sum())) - 1
        low, high = np.sort(self.robust_to[correct]), np.sort(self.broken_at[correct])
        return float(low[place]), float(high[place])

    def summary(self) -> dict[str, Any]:
        """The figures as plain values for JSON; an infinite bound is None."""
        quantiles = {str(q): [_finite(bound) for bound in self.minimal_radius(q)] for q in QUANTILES}
        return {
            "count": len(self),
            "accuracy": self.accuracy,
            "radii": self.radii.tolist(),
            "robust_accuracies": list(self.robust_accuracies),
            "intervals": [[one.low, one.high] for one in self.intervals],
            "minimal_radius_quantiles": quantiles,
            "forwards": int(self.forwards.sum()),
            "backwards": int(self.backwards.sum()),
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays by name."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "attack"}

    @classmethod
    def from_arrays(cls, attack: str, arrays: Mapping[str, NDArray[Any]]) -> "RobustnessCurve":
        """The inverse of `arrays`; checks names, shapes and that the radii rise."""
        names = {field.name for field in fields(cls)} - {"attack"}
        if set(arrays) != names:
            raise InputError(f"a curve holds {', '.join(sorted(names))}; got {', '.join(sorted(arrays))}")
        count = len(np.atleast_1d(arrays["labels"]))
        shapes = {name: array.shape for name, array in arrays.items() if name != "radii"}
        if set(shapes.values()) != {(count,)} or arrays["radii"].ndim != 1 or count == 0:
            raise InputError(f"a curve has arrays (N,) and radii (K,), N >= 1; got {shapes}")
        check_radii(arrays["radii"].tolist())
        reals = {"radii", "robust_to", "broken_at"}
        typed: dict[str, Any] = {name: arrays[name].astype(np.float64 if name in reals else np.int64) for name in names}
        return cls(attack=attack, **typed)


def worst_curve(curves: Sequence[RobustnessCurve]) -> RobustnessCurve:
    """The curve under all of some attacks on the same examples at the same radii: an example is broken by the first."""
    first = curves[0]
    if any(not np.array_equal(one.radii, first.radii) for one in curves):
        raise InputError("curves of several attacks are joined only if they have the same radii")
    if any(not np.array_equal(one.labels, first.labels) for one in curves):
        raise InputError("curves of several attacks are joined only if they are of the same examples")
    return RobustnessCurve(
        attack="+".join(one.attack for one in curves),
        radii=first.radii,
        labels=first.labels,
        clean_prediction=first.clean_prediction,
        robust_to=np.min([one.robust_to for one in curves], 0),
        broken_at=np.min([one.broken_at for one in curves], 0),
        forwards=np.sum([one.forwards for one in curves], 0),
        backwards=np.sum([one.backwards for one in curves], 0),
    )


def check_radii(radii: Sequence[float]) -> None:
    """Raise unless there are radii, positive and rising."""
    if not radii or not radii[0] > 0 or any(not a < b for a, b in pairwise(radii)):
        raise InputError(f"the radii of a curve are positive and rise, got {', '.join(f'{one:g}' for one in radii)}")


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
