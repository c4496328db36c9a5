"""The fast adaptive boundary attack of Croce and Hein."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ctrobust import draws
from ctrobust.attacks.attack_losses import resolve_loss
from ctrobust.attacks.attack_state import AttackState
from ctrobust.attacks.base import Attack
from ctrobust.attacks.hyperplanes import hyperplane_distance, hyperplane_step
from ctrobust.attacks.projections import distance, least, project
from ctrobust.attacks.random_starts import sphere_start
from ctrobust.attacks.stages import Stage
from ctrobust.specs.attack_fields import FABFields

MIN_LENGTH = 1e-8
"""Lower bound of |d_1| and |d_2| in their ratio, so that it is defined where both are zero."""


@dataclass(frozen=True)
class FAB(FABFields, Attack):
    """Iterated projection onto the linearized decision boundary, biased towards the clean image.

    x_k <- (1 - a) (x_k + overshoot d_1) + a (x + overshoot d_2),  a = min(|d_1| / (|d_1| + |d_2|), alpha_max)

    d_1 and d_2 are the projections of x_k and of x onto the linearized boundary within the box, minus x_k and x (see
    `hyperplanes`). A misclassified x_k is replaced by x + beta (x_k - x), the backward step. The boundary is that of
    one wrong class, or the nearest one, for which all C - 1 are linearized. FAB searches for the closest misclassified
    image; a success is one within eps.

    As in AutoAttack there is no final search along the segment from x to the image found. Unlike AutoAttack's, the
    attack on an example ends at its first success: a closer image would not change the outcome. An example without a
    success gets the last iterate, projected on ball and box, and that image is classified too.

    A robust example costs the clean forward pass; two forward passes per step, to linearize at x_k and to classify the
    next iterate (which is nearly always misclassified, so that the next step starts elsewhere); one backward pass per
    step, or C - 1 if untargeted (C in the authors' code, which differentiates the logits instead of their differences);
    and one forward pass for the last image of each stage.

    Attributes:
        eps: radius of the ball.
        steps: number of steps.
        norm: "linf" or "l2".
        targets: number of target classes, attacked in turn: the wrong classes of the largest clean logits, or all wrong
            classes if there are fewer. Any wrong class is a success. 0 takes the nearest boundary at each step.
        restarts: number of starts, each on the remaining examples: first the clean image, then random points at
            distance eps / 2.
        alpha_max: upper bound of the bias a towards the clean image.
        overshoot: factor of d_1 and d_2, where 1 ends exactly on the boundary; the paper's eta.
        beta: fraction of the perturbation that the backward step keeps.
        seed: seed of the random starts.

    Example:
        >>> print(FAB(eps=8 / 255, targets=9))
        fab:eps=8/255,targets=9
    """

    def uses_keys(self) -> bool:
        return self.restarts > 1

    def run_stage(self, state: AttackState, stage: Stage) -> None:
        state.drop_misclassified()
        index = state.active()
        if not len(index):
            return
        adv = iterate = x = state.x[index]
        if stage.restart:
            stream = draws.stream(self.seed, "fab", stage.restart, stage.target)
            adv = sphere_start(x, state.keys[index], stream, self.eps / 2, self.norm)
        target = state.target(index, stage.target) if stage.target else None

        for step in range(self.steps):
            value, gradient = self._boundary(state, adv, index, target)
            adv = iterate = self._step(x, adv, value, gradient)
            misclassified = state.wrong(state.forward(iterate, index), index)
            if misclassified.any():
                broken = misclassified & (distance(iterate, x, self.norm) <= self.eps)
                if broken.any():
                    state.record(index[broken], iterate[broken], fooled=True)
                    active = ~broken
                    index, x, iterate = index[active], x[active], iterate[active]
                    misclassified = misclassified[active]
                    target = None if target is None else target[active]
                    if not len(index):
                        return
                beta = torch.where(misclassified, self.beta, x.new_ones(())).view(-1, *[1] * (x.dim() - 1))
                adv = x.lerp(iterate, beta)
            state.resume_state.report_progress((step + 1) / self.steps)

        last = project(iterate, x, self.eps, self.norm)
        state.record(index, last, state.wrong(state.forward(last, index), index) if state.verify_last else False)

    def _boundary(self, state: AttackState, at: Tensor, index: Tensor, target: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the logit of a wrong class, the target or the nearest, minus that of y, (n,), and its gradient."""
        if target is not None:
            gradient, value, _ = state.gradient(at, index, resolve_loss("margin"), target=target)
            return value, gradient
        nearest = at.new_full((len(at),), torch.inf)
        value, gradient = torch.zeros_like(nearest), torch.zeros_like(at)
        for other_value, other_gradient in state.boundaries(at, index):
            to_boundary = hyperplane_distance(other_gradient.flatten(1), other_value, self.norm)
            nearer = to_boundary < nearest
            nearest, value = torch.where(nearer, to_boundary, nearest), torch.where(nearer, other_value, value)
            gradient = torch.where(nearer.view(-1, *[1] * (at.dim() - 1)), other_gradient, gradient)
        return value, gradient

    def _step(self, x: Tensor, adv: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
        """Return the next iterate, given the boundary linearized at adv: value (n,) and gradient (n, ...)."""
        shape, x, adv, gradient = x.shape, x.flatten(1), adv.flatten(1), gradient.flatten(1)
        d_1 = hyperplane_step(adv, gradient, value, self.norm)
        d_2 = hyperplane_step(x, gradient, value + (x - adv).mul_(gradient).sum(1), self.norm)
        zero = x.new_zeros(())
        length_1, length_2 = (distance(d, zero, self.norm).clamp_(min=least(x.dtype, MIN_LENGTH)) for d in (d_1, d_2))
        alpha = (length_1 / (length_1 + length_2)).clamp_(max=self.alpha_max)[:, None]
        d_1.mul_(self.overshoot).add_(adv)
        d_2.mul_(self.overshoot).add_(x)
        return d_1.lerp_(d_2, alpha).clamp_(0.0, 1.0).view(shape)
