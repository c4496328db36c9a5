"""The loop of gradient attacks: ascend an objective, drop who is fooled, count the passes."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from ctrobust.attacks.guards import check_batch, check_logits, untouched
from ctrobust.attacks.objectives import Objective
from ctrobust.attacks.result import AttackResult
from ctrobust.errors import InputError

Success = Literal["any", "last"]
"""`any`: the first image that fools ends an example's attack; `last`: all steps are made, the last image counts."""


@dataclass(frozen=True, eq=False)
class Standing:
    """The examples under attack, and where in the batch they come from."""

    index: Tensor
    x: Tensor
    y: Tensor
    adv: Tensor
    clean: Tensor | None

    def keep(self, mask: Tensor) -> "Standing":
        """Only those of the mask."""
        clean = None if self.clean is None else self.clean[mask]
        return Standing(self.index[mask], self.x[mask], self.y[mask], self.adv[mask], clean)


def input_gradient(
    model: nn.Module, at: Tensor, y: Tensor, clean: Tensor | None, objective: Objective
) -> tuple[Tensor, Tensor]:
    """The gradient of the summed objectives with respect to the input alone, and the logits (N, C) there."""
    at = at.detach().requires_grad_()
    logits = check_logits(model(at), y)
    total = objective.ascend(logits, y, logits if clean is None else clean).sum()
    (gradient,) = torch.autograd.grad(total, at)
    if gradient.isnan().any():
        raise InputError("the gradient with respect to the images is NaN: model or loss has none there")
    return gradient, logits.detach()


def ascend(
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    keys: Tensor | None,
    clean_logits: Tensor | None,
    *,
    start: Callable[[Tensor, Tensor], Tensor] | None,
    step: Callable[[Tensor, Tensor, Tensor], Tensor],
    steps: int,
    objective: Objective,
    success: Success,
    judge: bool,
) -> AttackResult:
    """Begin at `start(x, keys)`, or at x itself, and make steps (x, adv, gradient) -> adv.

    Without `judge` the last image is not run through the model, and `success` of who was not seen fooled is False.
    """
    with untouched(model, x):
        keys = check_batch(x, y, keys)
        # Copies: labels of any integer type become int64, and tensors made in inference mode may be differentiated.
        x, y = x.detach().clone(), y.to(torch.int64, copy=True)
        if clean_logits is not None:
            clean_logits = check_logits(clean_logits.detach().clone(), y)
        tally = _Tally(x)
        if clean_logits is None and (objective.needs_clean or (success == "any" and start is not None)):
            clean_logits = tally.forward(model, x, y, torch.arange(len(x), device=x.device))
        adv = x if start is None else start(x, keys)
        standing = Standing(torch.arange(len(x), device=x.device), x, y, adv, clean_logits)
        if success == "any" and clean_logits is not None:
            misclassified = clean_logits.argmax(1) != y
            tally.fooled |= misclassified
            standing = standing.keep(~misclassified)

        for _ in range(steps):
            if not len(standing.index):
                break
            gradient, logits = input_gradient(model, standing.adv, standing.y, standing.clean, objective)
            tally.forwards[standing.index] += 1
            tally.backwards[standing.index] += 1
            right = logits.argmax(1) == standing.y
            if success == "any" and not right.all():
                tally.record(standing.keep(~right))
                standing, gradient = standing.keep(right), gradient[right]
            standing = replace(standing, adv=step(standing.x, standing.adv, gradient))

        tally.found[standing.index] = standing.adv
        if judge and len(standing.index):
            logits = tally.forward(model, standing.adv, standing.y, standing.index)
            tally.fooled[standing.index] = logits.argmax(1) != standing.y
        return AttackResult(tally.found, tally.fooled, tally.forwards, tally.backwards)


class _Tally:
    """The result in the making."""

    def __init__(self, x: Tensor) -> None:
        self.found = x.clone()
        self.fooled = torch.zeros(len(x), dtype=torch.bool, device=x.device)
        self.forwards = torch.zeros(len(x), dtype=torch.int64, device=x.device)
        self.backwards = torch.zeros_like(self.forwards)

    def record(self, lost: Standing) -> None:
        """Note the images that fooled the model."""
        self.found[lost.index], self.fooled[lost.index] = lost.adv, True

    def forward(self, model: nn.Module, at: Tensor, y: Tensor, index: Tensor) -> Tensor:
        """The logits there, counted."""
        self.forwards[index] += 1
        with torch.no_grad():
            return check_logits(model(at), y)
