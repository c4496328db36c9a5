"""Carlini and Wagner's l-infinity objective: c times the margin loss plus the excess of |d_i| over a shrinking tau."""

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

FIRST_C, LAST_C = 1e-5, 20.0
TAU_DECAY = 0.9
MIN_TAU = 1 / 256


@dataclass
class TauSchedule:
    """Weights c and tau of each example over rounds of a few steps; every field has one entry per example, (n,).

    A round minimizes c max(0, confidence - margin) + sum_i max(0, |d_i| - tau). A failed round doubles c, up to 20; a
    successful one shrinks tau to .9 times the smaller of tau and the perturbation's norm. The objective is divided by
    c, and so depends on c only where some |d_i| exceeds tau: a failed round in which the penalty was never active would
    repeat itself, and is the last.

    Attributes:
        c: weight of the margin loss.
        tau: threshold above which |d_i| is penalized.
        best_distance: the smallest norm of a misclassified image of this round, infinity if there is none.
        penalized: whether some |d_i| exceeded tau in this round.
    """

    c: Tensor
    tau: Tensor
    best_distance: Tensor
    penalized: Tensor

    @classmethod
    def begin(cls, x: Tensor) -> "TauSchedule":
        """Start at c = 1e-5 and tau = 1, which penalizes nothing, for each image of x (n, ...)."""
        ones = x.new_ones(len(x))
        return cls(FIRST_C * ones, ones, torch.inf * ones, torch.zeros_like(ones, dtype=torch.bool))

    def select(self, active: Tensor) -> None:
        """Keep only the active examples; `active` is a mask (n,)."""
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name)[active])

    def gradient(self, margin_gradient: Tensor, perturbation: Tensor) -> Tensor:
        """Gradient of the objective divided by c, with respect to the images; overwrites `perturbation`."""
        c, tau = (values.view(-1, *[1] * (perturbation.dim() - 1)) for values in (self.c, self.tau))
        excess = perturbation.abs() > tau
        self.penalized = self.penalized | excess.flatten(1).any(1)
        return perturbation.sign_().mul_(excess).div_(c).sub_(margin_gradient)

    def finished(
        self, count: Tensor, steps: int, fooled: Tensor, distance: Tensor, shortfall: Tensor  # noqa: ARG002
    ) -> Tensor:  # fmt: skip
        """Record one step of each example and return the mask (n,) of those whose round is over.

        Args:
            count: number of steps made in the current round.
            steps: number of steps of a whole round.
            fooled: whether the current image is misclassified with the wanted confidence.
            distance: l-infinity distance of the current image to the clean one.
            shortfall: unused; the l2 objective needs it.
        """
        self.best_distance = torch.where(fooled & (distance < self.best_distance), distance, self.best_distance)
        return count >= steps

    def update(self, finished: Tensor) -> Tensor:
        """Set c and tau for the next round of the finished examples; return the mask (n,) of those with none left."""
        fooled = self.best_distance < torch.inf
        tau = TAU_DECAY * torch.minimum(self.tau, self.best_distance)
        c = torch.where(fooled, self.c, 2 * self.c)
        exhausted = finished & torch.where(fooled, tau <= MIN_TAU, (c >= LAST_C) | ~self.penalized)
        self.tau = torch.where(finished & fooled, tau, self.tau)
        self.c = torch.where(finished, c, self.c)
        self.best_distance = torch.where(finished, torch.inf, self.best_distance)
        self.penalized = self.penalized & ~finished
        return exhausted
