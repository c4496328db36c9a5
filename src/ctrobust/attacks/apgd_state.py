"""State of Auto-PGD: iterates, step sizes, best iterates and checkpoint history of each example."""

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from ctrobust.attacks.projections import project
from ctrobust.specs.attack_fields import Norm


@dataclass
class APGDState:
    """APGD's state; every field has one row (n, ...) per active example.

    Attributes:
        index: positions in the batch.
        x: the clean images.
        adv, previous: the current iterate x_k and the previous one x_{k-1}.
        step_size: size of the next step, (n, 1, ...).
        direction: direction of steepest ascent at `adv`.
        loss: the loss of the last iterate that was evaluated.
        increases: number of steps of the current window that increased the loss.
        best, best_direction, best_loss: the iterate of the highest loss, its direction and its loss.
        checkpoint_loss: `best_loss` at the last checkpoint.
        halved: whether the step size was halved at the last checkpoint; true before the first.
    """

    index: Tensor
    x: Tensor
    adv: Tensor
    previous: Tensor
    step_size: Tensor
    direction: Tensor
    loss: Tensor
    increases: Tensor
    best: Tensor
    best_direction: Tensor
    best_loss: Tensor
    checkpoint_loss: Tensor
    halved: Tensor

    @classmethod
    def begin(cls, index: Tensor, x: Tensor, adv: Tensor, step_size: float) -> "APGDState":
        """State before `adv` is evaluated: its loss will be the best so far and not count as an increase."""
        low, step_sizes = x.new_full((len(x),), -torch.inf), x.new_full((len(x), *[1] * (x.dim() - 1)), step_size)
        increases, halved = torch.zeros_like(index), torch.ones_like(index, dtype=torch.bool)
        return cls(index, x, adv, adv, step_sizes, adv, -low, increases, adv, adv, low, low, halved)

    def select(self, active: Tensor) -> None:
        """Keep only the active examples; `active` is a mask (n,)."""
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name)[active])

    def step(self, momentum: float, eps: float, norm: Norm) -> None:
        """Take a step: z = P(x_k + s_k direction), then x_{k+1} = P(x_k + a (z - x_k) + (1 - a) (x_k - x_{k-1})).

        `momentum` is the paper's a (alpha), the weight of the new step.
        """
        z = project(torch.addcmul(self.adv, self.step_size, self.direction), self.x, eps, norm)
        z.sub_(self.adv).mul_(momentum).add_(self.adv).add_(self.adv - self.previous, alpha=1 - momentum)
        self.previous, self.adv = self.adv, project(z, self.x, eps, norm)

    def update_best(self, direction: Tensor, loss: Tensor) -> None:
        """Record the direction of steepest ascent and the loss at `adv`, and update the best iterate."""
        self.increases = self.increases + (loss > self.loss)
        self.direction, self.loss = direction, loss
        higher = loss > self.best_loss
        self.best_loss, rows = torch.where(higher, loss, self.best_loss), higher.view(self.step_size.shape)
        self.best = torch.where(rows, self.adv, self.best)
        self.best_direction = torch.where(rows, direction, self.best_direction)

    def checkpoint(self, max_increases: float) -> None:
        """Halve the step size of stalled examples and return them to their best iterate.

        An example has stalled if at most `max_increases` steps of the window increased its loss (condition 1), or if
        its step size was not halved at the last checkpoint and its best loss has not increased since (condition 2).
        """
        stalled = (self.increases <= max_increases) | (~self.halved & (self.best_loss <= self.checkpoint_loss))
        self.halved, self.checkpoint_loss = stalled, self.best_loss
        self.increases = torch.zeros_like(self.increases)
        rows = stalled.view(self.step_size.shape)
        self.step_size = torch.where(rows, self.step_size / 2, self.step_size)
        self.adv = torch.where(rows, self.best, self.adv)
        self.direction = torch.where(rows, self.best_direction, self.direction)
