"""The mean over several passes of a model that draws at random."""

import math

import torch
from torch import Tensor

from ctrobust.attacks.attack_losses import AttackLoss


class EOTAverage:
    """Gradients and values of the mean loss over several passes.

    The mean of a loss L(u) has the gradient of sum_i L'(u_i) u_i: each pass weighs as much as its loss is steep. The
    weights are relative to the largest, so that none is lost where all are tiny; values are logs of the mean loss.

    Attributes:
        objective: what each pass gives.
        negated: whether it gives minus the loss, because that is to fall.
    """

    def __init__(self, attack_loss: AttackLoss, *, negated: bool) -> None:
        self.attack_loss, self.negated = attack_loss, negated
        self.gradient: Tensor | None = None
        self.steepest = self.logits = torch.empty(0)
        self.values: list[Tensor] = []

    def add(self, gradient: Tensor, values: Tensor, logits: Tensor) -> None:
        """One more pass."""
        raw = -values if self.negated else values
        value, slope = (
            (raw, torch.zeros_like(raw)) if self.attack_loss.log_form is None else self.attack_loss.log_form(raw)
        )
        self.values.append(value)
        if self.gradient is None:
            self.gradient, self.logits, self.steepest = gradient.clone(), logits.clone(), slope
            return
        top = torch.maximum(self.steepest, slope)
        shape = -1, *[1] * (gradient.dim() - 1)
        self.gradient.mul_((self.steepest - top).exp().view(shape)).add_(gradient * (slope - top).exp().view(shape))
        self.logits += logits
        self.steepest = top

    def result(self) -> tuple[Tensor, Tensor, Tensor]:
        """The gradient, up to a positive factor for each example; the values; the mean logits."""
        assert self.gradient is not None
        values = torch.stack(self.values)
        mean = values.mean(0) if self.attack_loss.log_form is None else values.logsumexp(0) - math.log(len(values))
        return self.gradient / len(values), -mean if self.negated else mean, self.logits / len(values)
