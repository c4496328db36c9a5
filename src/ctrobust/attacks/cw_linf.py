"""What Carlini and Wagner minimize in l-infinity: the margin, and what of the perturbation exceeds a shrinking tau."""

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

FIRST_C, LAST_C = 1e-5, 20.0
SHRINK = 0.9
LEAST_TAU = 1 / 256


@dataclass
class Penalties:
    """The weights of each example, a row (n,) for each, in rounds of a few steps.

    A round minimizes c max(0, confidence - margin) + sum_i max(0, |d_i| - tau). One that does not fool doubles c, up to
    20; one that does shrinks tau to .9 of it or, if that is less, of the perturbation. What is minimized is divided by
    c, and so depends on c only where some |d_i| exceeds tau: a round in which none did and that did not fool would
    repeat itself, and is the last.

    Attributes:
        c, tau: the weights.
        reached: the least norm of what fooled in this round, else infinity.
        pressed: whether the penalty was felt in this round.
    """

    c: Tensor
    tau: Tensor
    reached: Tensor
    pressed: Tensor

    @classmethod
    def begin(cls, x: Tensor) -> "Penalties":
        """No limit at first."""
        ones = x.new_ones(len(x))
        return cls(FIRST_C * ones, ones, torch.inf * ones, torch.zeros_like(ones, dtype=torch.bool))

    def keep(self, active: Tensor) -> None:
        """Drop the others."""
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name)[active])

    def gradient(self, margin: Tensor, offset: Tensor) -> Tensor:
        """What is descended, with respect to the images, from the gradient of the margin that is still wanted."""
        c, tau = (values.view(-1, *[1] * (offset.dim() - 1)) for values in (self.c, self.tau))
        beyond = offset.abs() > tau
        self.pressed = self.pressed | beyond.flatten(1).any(1)
        return offset.sign_().mul_(beyond).div_(c).sub_(margin)

    def ended(self, count: Tensor, steps: int, fooled: Tensor, far: Tensor, missing: Tensor) -> Tensor:  # noqa: ARG002
        """(n,) whose round is over, given how far the image is from x and whether it fools."""
        self.reached = torch.where(fooled & (far < self.reached), far, self.reached)
        return count >= steps

    def turn(self, ended: Tensor) -> Tensor:
        """Weights of the next round for those of the mask; (n,) for whom there is none."""
        fooled = self.reached < torch.inf
        tau = SHRINK * torch.minimum(self.tau, self.reached)
        c = torch.where(fooled, self.c, 2 * self.c)
        over = ended & torch.where(fooled, tau <= LEAST_TAU, (c >= LAST_C) | ~self.pressed)
        self.tau = torch.where(ended & fooled, tau, self.tau)
        self.c = torch.where(ended, c, self.c)
        self.reached = torch.where(ended, torch.inf, self.reached)
        self.pressed = self.pressed & ~ended
        return over
