"""What Carlini and Wagner minimize in l2: the squared perturbation and the margin, weighed by binary search."""

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

FIRST_C = 1e-3
PROGRESS = 0.9999
"""A search ends early where a tenth of its steps did not bring the objective down to this share."""


@dataclass
class Searches:
    """The weight of each example, a row (n,) for each, in a number of searches.

    A search minimizes |d|^2 + c max(0, confidence - margin). After one that fools c is smaller, halfway to the largest
    that did not; after one that does not it is larger, halfway to the smallest that did, or tenfold.

    Attributes:
        c: the weight.
        low, high: the largest that did not fool, the smallest that did.
        left: searches still to make, this one included.
        fooled: whether this one did.
        before: the objective a tenth of the steps ago.
    """

    c: Tensor
    low: Tensor
    high: Tensor
    left: Tensor
    fooled: Tensor
    before: Tensor

    @classmethod
    def begin(cls, x: Tensor, searches: int) -> "Searches":
        """With c = 1e-3."""
        ones = x.new_ones(len(x))
        left, infinity = torch.full_like(ones, searches, dtype=torch.int64), torch.inf * ones
        return cls(FIRST_C * ones, 0 * ones, infinity, left, torch.zeros_like(left, dtype=torch.bool), infinity)

    def keep(self, active: Tensor) -> None:
        """Drop the others."""
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name)[active])

    def gradient(self, margin: Tensor, offset: Tensor) -> Tensor:
        """What is descended, with respect to the images, from the gradient of the margin that is still wanted."""
        return offset.mul_(2).sub_(margin * self.c.view(-1, *[1] * (offset.dim() - 1)))

    def ended(self, count: Tensor, steps: int, fooled: Tensor, far: Tensor, missing: Tensor) -> Tensor:
        """(n,) whose search is over, given how far the image is from x, whether it fools and what margin is missing."""
        self.fooled = self.fooled | fooled
        looked = count % max(steps // 10, 1) == 0
        attack_loss = far.square() + self.c * missing
        stalled = looked & (attack_loss > PROGRESS * self.before)
        self.before = torch.where(looked, attack_loss, self.before)
        return stalled | (count >= steps)

    def turn(self, ended: Tensor) -> Tensor:
        """The next search for those of the mask; (n,) for whom there is none."""
        low = torch.where(self.fooled, self.low, self.c)
        high = torch.where(self.fooled, self.c, self.high)
        c = torch.where(high < torch.inf, (low + high) / 2, 10 * low)
        for name, value in (("low", low), ("high", high), ("c", c), ("left", self.left - 1)):
            setattr(self, name, torch.where(ended, value, getattr(self, name)))
        self.fooled = self.fooled & ~ended
        self.before = torch.where(ended, torch.inf, self.before)
        return ended & (self.left == 0)
