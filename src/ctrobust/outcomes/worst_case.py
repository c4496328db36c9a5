"""The headline number: what is left of a model under the worst of several attacks, example by example."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ctrobust.errors import InputError
from ctrobust.outcomes.evaluation import Evaluation
from ctrobust.outcomes.intervals import Interval, wilson


@dataclass(frozen=True, eq=False)
class WorstCase:
    """Several attacks on the same examples, of which an example survives all or is broken.

    Attributes:
        robust: (N,) bool, whether the example is correct without an attack and under each of them.
        broken: attack -> the number of correctly classified examples that it breaks.
        alone: attack -> the number of these that no other attack breaks.
    """

    robust: NDArray[np.bool_]
    broken: Mapping[str, int]
    alone: Mapping[str, int]

    @property
    def robust_accuracy(self) -> float:
        """The share of images that are classified correctly clean and under every attack."""
        return float(self.robust.mean())

    @property
    def interval(self) -> Interval:
        """The 95% Wilson interval of the robust accuracy."""
        return wilson(int(self.robust.sum()), len(self.robust))


def worst_case(evaluations: Mapping[str, Evaluation]) -> WorstCase:
    """Combine evaluations of one model on the same examples, by the names of their attacks.

    The attacks must have the same norm and radius for the result to mean something; their texts say so, not their
    outcomes, so the caller chooses them.

    Example:
        >>> import numpy as np
        >>> def outcomes(prediction):
        ...     one_hot = np.eye(3, dtype=np.float32)
        ...     labels, zeros = np.array([0, 1, 2]), np.zeros(3, np.int64)
        ...     return Evaluation(
        ...         labels, one_hot[labels], None, labels, np.array(prediction), np.zeros(3, np.float32), zeros, zeros,
        ...         np.zeros(3, bool),
        ...     )
        >>> found = worst_case({"fgsm": outcomes([0, 1, 0]), "pgd": outcomes([0, 2, 0])})
        >>> found.robust.tolist(), found.broken, found.alone
        ([True, False, False], {'fgsm': 1, 'pgd': 2}, {'fgsm': 0, 'pgd': 1})
    """
    if not evaluations:
        raise InputError("a worst case needs at least one evaluation")
    names, found = list(evaluations), list(evaluations.values())
    for name, one in evaluations.items():
        if not (
            np.array_equal(one.labels, found[0].labels)
            and np.array_equal(one.clean_prediction, found[0].clean_prediction)
        ):
            raise InputError(f"{name} and {names[0]} are not evaluations of one model on the same examples")
    broken = np.stack([one.clean_correct & ~one.robust for one in found])
    only = broken & (broken.sum(axis=0) == 1)
    return WorstCase(
        robust=np.logical_and.reduce([one.robust for one in found]),
        broken={name: int(row.sum()) for name, row in zip(names, broken, strict=True)},
        alone={name: int(row.sum()) for name, row in zip(names, only, strict=True)},
    )
