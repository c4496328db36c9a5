"""APGD's own state: where each example is in its ascent, and how it goes on from there."""

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from ctrobust.attacks.projections import Norm, project


@dataclass
class APGDState:
    """Where each example is in its own ascent: every field has a row (n, ...) for each.

    Attributes:
        index: positions in the batch.
        x: the images.
        adv, before: the iterate, and the one that led to it.
        size: of the next step, (n, 1, ...).
        direction: of steepest ascent at `adv`.
        loss: the objective, where the climb last arrived.
        rises: how many steps of this window raised it.
        best, best_direction, best_loss: the same at the highest iterate.
        checked: `best_loss` at the last checkpoint.
        halved: whether the size was halved there; true at first.
    """

    index: Tensor
    x: Tensor
    adv: Tensor
    before: Tensor
    size: Tensor
    direction: Tensor
    loss: Tensor
    rises: Tensor
    best: Tensor
    best_direction: Tensor
    best_loss: Tensor
    checked: Tensor
    halved: Tensor

    @classmethod
    def begin(cls, index: Tensor, x: Tensor, adv: Tensor, size: float) -> "APGDState":
        """On arrival at `adv`: the loss there will be the best, and no rise."""
        low, sizes = x.new_full((len(x),), -torch.inf), x.new_full((len(x), *[1] * (x.dim() - 1)), size)
        none, halved = torch.zeros_like(index), torch.ones_like(index, dtype=torch.bool)
        return cls(index, x, adv, adv, sizes, adv, -low, none, adv, adv, low, low, halved)

    def keep(self, active: Tensor) -> None:
        """Drop the others."""
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name)[active])

    def step(self, share: float, eps: float, norm: Norm) -> None:
        """Go on: z = P(adv + size direction), then P(adv + share (z - adv) + (1 - share) (adv - before))."""
        z = project(torch.addcmul(self.adv, self.size, self.direction), self.x, eps, norm)
        z.sub_(self.adv).mul_(share).add_(self.adv).add_(self.adv - self.before, alpha=1 - share)
        self.before, self.adv = self.adv, project(z, self.x, eps, norm)

    def arrive(self, direction: Tensor, loss: Tensor) -> None:
        """Take note of what was found at `adv`."""
        self.rises = self.rises + (loss > self.loss)
        self.direction, self.loss = direction, loss
        higher = loss > self.best_loss
        self.best_loss, rows = torch.where(higher, loss, self.best_loss), higher.view(self.size.shape)
        self.best = torch.where(rows, self.adv, self.best)
        self.best_direction = torch.where(rows, direction, self.best_direction)

    def check(self, enough: float) -> None:
        """Halve the size of who rose too rarely, or not above the best since a checkpoint that left the size alone.

        They go back to their best iterate, and on from there.
        """
        stalled = (self.rises <= enough) | (~self.halved & (self.best_loss <= self.checked))
        self.halved, self.checked, self.rises = stalled, self.best_loss, torch.zeros_like(self.rises)
        if stalled.any():
            rows = stalled.view(self.size.shape)
            self.size = torch.where(rows, self.size / 2, self.size)
            self.adv = torch.where(rows, self.best, self.adv)
            self.direction = torch.where(rows, self.best_direction, self.direction)
