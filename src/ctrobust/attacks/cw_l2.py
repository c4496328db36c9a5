"""Carlini and Wagner's l2 objective: squared perturbation plus c times the margin loss, c by binary search."""

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

FIRST_C = 1e-3
STALL_RATIO = 0.9999
"""A search stops early if a tenth of its steps did not bring the objective below this fraction of its value."""


@dataclass
class BinarySearch:
    """Binary search for the weight c of each example; every field has one entry per example, (n,).

    A search minimizes |d|^2 + c max(0, confidence - margin). After a successful search c moves halfway down to the
    largest c that failed; after a failed one it moves halfway up to the smallest c that succeeded, or is multiplied by
    ten if none has.

    Attributes:
        c: the current weight.
        low, high: the largest weight that failed and the smallest that succeeded.
        remaining: number of searches left, the current one included.
        fooled: whether the current search has found a misclassified image.
        last_objective: the objective at the last check for progress.
    """

    c: Tensor
    low: Tensor
    high: Tensor
    remaining: Tensor
    fooled: Tensor
    last_objective: Tensor

    @classmethod
    def begin(cls, x: Tensor, searches: int) -> "BinarySearch":
        """Start at c = 1e-3 for each image of x (n, ...)."""
        ones = x.new_ones(len(x))
        remaining, infinity = torch.full_like(ones, searches, dtype=torch.int64), torch.inf * ones
        fooled = torch.zeros_like(remaining, dtype=torch.bool)
        return cls(FIRST_C * ones, 0 * ones, infinity, remaining, fooled, infinity)

    def select(self, active: Tensor) -> None:
        """Keep only the active examples; `active` is a mask (n,)."""
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name)[active])

    def gradient(self, margin_gradient: Tensor, perturbation: Tensor) -> Tensor:
        """Gradient of the objective with respect to the images; overwrites `perturbation`."""
        return perturbation.mul_(2).sub_(margin_gradient * self.c.view(-1, *[1] * (perturbation.dim() - 1)))

    def finished(self, count: Tensor, steps: int, fooled: Tensor, distance: Tensor, shortfall: Tensor) -> Tensor:
        """Record one step of each example and return the mask (n,) of those whose search is over.

        Args:
            count: number of steps made in the current search.
            steps: number of steps of a whole search.
            fooled: whether the current image is misclassified with the wanted confidence.
            distance: l2 distance of the current image to the clean one.
            shortfall: max(0, confidence - margin).
        """
        self.fooled = self.fooled | fooled
        checked = count % max(steps // 10, 1) == 0
        objective = distance.square() + self.c * shortfall
        stalled = checked & (objective > STALL_RATIO * self.last_objective)
        self.last_objective = torch.where(checked, objective, self.last_objective)
        return stalled | (count >= steps)

    def update(self, finished: Tensor) -> Tensor:
        """Set c for the next search of the finished examples; return the mask (n,) of those with no search left."""
        low = torch.where(self.fooled, self.low, self.c)
        high = torch.where(self.fooled, self.c, self.high)
        c = torch.where(high < torch.inf, (low + high) / 2, 10 * low)
        for name, value in (("low", low), ("high", high), ("c", c), ("remaining", self.remaining - 1)):
            setattr(self, name, torch.where(finished, value, getattr(self, name)))
        self.fooled = self.fooled & ~finished
        self.last_objective = torch.where(finished, torch.inf, self.last_objective)
        return finished & (self.remaining == 0)
