"""Expectation over transformation (EOT): the mean loss over several passes of a model that draws at random."""

import math

import torch
from torch import Tensor

from ctrobust.attacks.attack_losses import AttackLoss


class EOTAverage:
    """The gradient and the values of the mean loss over several passes.

    If the attack loss u_i of pass i replaces a loss L(u_i), the mean of L has the gradient sum_i L'(u_i) grad u_i / n.
    The weights L'(u_i) are divided by the largest of them, so that they do not underflow where all are tiny; the values
    are logarithms of the mean loss.

    Attributes:
        attack_loss: the loss of each pass.
        negated: whether the values are minus the attack loss, because an attack towards a class decreases the loss.
    """

    def __init__(self, attack_loss: AttackLoss, *, negated: bool) -> None:
        self.attack_loss, self.negated = attack_loss, negated
        self.gradient: Tensor | None = None
        self.largest_slope = self.logits = torch.empty(0)
        self.values: list[Tensor] = []

    def add(self, gradient: Tensor, values: Tensor, logits: Tensor) -> None:
        """Add one pass: its gradient (n, ...), values (n,) and logits (n, C)."""
        raw = -values if self.negated else values
        value, slope = (
            (raw, torch.zeros_like(raw)) if self.attack_loss.log_form is None else self.attack_loss.log_form(raw)
        )
        self.values.append(value)
        if self.gradient is None:
            self.gradient, self.logits, self.largest_slope = gradient.clone(), logits.clone(), slope
            return
        largest = torch.maximum(self.largest_slope, slope)
        shape = -1, *[1] * (gradient.dim() - 1)
        self.gradient.mul_((self.largest_slope - largest).exp().view(shape)).add_(
            gradient * (slope - largest).exp().view(shape)
        )
        self.logits += logits
        self.largest_slope = largest

    def result(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradient, up to a positive factor for each example, the values and the mean logits."""
        assert self.gradient is not None
        values = torch.stack(self.values)
        mean = values.mean(0) if self.attack_loss.log_form is None else values.logsumexp(0) - math.log(len(values))
        return self.gradient / len(values), -mean if self.negated else mean, self.logits / len(values)
