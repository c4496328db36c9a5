"""The fast adaptive boundary attack of Croce and Hein."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ctrobust import draws
from ctrobust.attacks.attack_losses import resolve_loss
from ctrobust.attacks.attack_state import AttackState
from ctrobust.attacks.base import Attack
from ctrobust.attacks.field_checks import check_choice, check_count, check_eps, check_share
from ctrobust.attacks.hyperplanes import hyperplane_distance, hyperplane_step
from ctrobust.attacks.projections import NORMS, Norm, distance, least, project
from ctrobust.attacks.random_starts import sphere_start
from ctrobust.attacks.stages import Stage
from ctrobust.errors import InputError

LEAST = 1e-8
"""Ways shorter than this count as so long, where two of them are compared."""


@dataclass(frozen=True)
class FAB(Attack):
    """Steps to where the boundary would be if the model were linear, drawn to the image, shorter after each success.

    x_k <- (1 - a) (x_k + overshoot d_1) + a (x + overshoot d_2),  a = min(|d_1| / (|d_1| + |d_2|), alpha_max)

    d_1 and d_2 are the shortest ways from x_k and from x to the linearized boundary within the box (see `hyperplanes`).
    Where x_k is misclassified it goes on from x + beta (x_k - x). The boundary is that of one wrong class, or of the
    nearest, for which all C - 1 are linearized. The search is for the nearest misclassified image; a success is one
    within eps.

    As in AutoAttack there is no final search along the line from x to the image found. Unlike there, the attack on an
    example ends at its first success: to come nearer still would not change the outcome. Who has none is given back at
    the last iterate, cut to ball and box, and that image is judged too.

    Passes for an example that stands: the clean one; for each step two forward, to linearize and to judge where it
    led (nearly always across the boundary, so that the next begins elsewhere), and one backward, C - 1 where untargeted
    (the authors' code makes C: of the logits, not of their differences); one forward for the last image of each part.

    Attributes:
        eps: radius of the ball.
        steps: how many.
        norm: "linf" or "l2".
        targets: in turn to the boundary of each of so many best wrong classes of the clean output, or all where there
            are fewer; any wrong class counts. 0 is the nearest boundary at each step.
        restarts: the first from the image, others from random points at eps / 2, on those who still stand.
        alpha_max: the most that a step is drawn to the image.
        overshoot: how far steps go, where 1 is just to the boundary; the paper's eta.
        beta: the share of the way from the image that is left after a success.
        seed: of the random starts.

    Example:
        >>> print(FAB(eps=8 / 255, targets=9))
        fab:eps=8/255,targets=9
    """

    revision: ClassVar[int] = 0

    eps: float
    steps: int = 100
    norm: Norm = "linf"
    targets: int = 0
    restarts: int = 1
    alpha_max: float = 0.1
    overshoot: float = 1.05
    beta: float = 0.9
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice(self.norm, "norm", NORMS)
        check_eps(self.eps, self.norm)
        for name in ("steps", "restarts"):
            check_count(getattr(self, name), name)
        if type(self.targets) is not int or self.targets < 0:
            raise InputError(f"targets is a whole number of at least 0, got {self.targets}")
        for name in ("alpha_max", "beta"):
            check_share(getattr(self, name), name)
        if not 1.0 <= self.overshoot < math.inf:
            raise InputError(f"overshoot is finite and at least 1, got {self.overshoot}")

    def run_stage(self, state: AttackState, stage: Stage) -> None:
        """All steps from one start."""
        state.drop_misclassified()
        index = state.active()
        if not len(index):
            return
        adv = tried = x = state.x[index]
        if stage.restart:
            stream = draws.stream(self.seed, "fab", stage.restart, stage.target)
            adv = sphere_start(x, state.keys[index], stream, self.eps / 2, self.norm)
        target = state.target(index, stage.target) if stage.target else None

        for step in range(self.steps):
            value, gradient = self._boundary(state, adv, index, target)
            adv = tried = self._step(x, adv, value, gradient)
            lost = state.wrong(state.forward(tried, index), index)
            if lost.any():
                won = lost & (distance(tried, x, self.norm) <= self.eps)
                if won.any():
                    state.record(index[won], tried[won], fooled=True)
                    active = ~won
                    index, x, tried, lost = index[active], x[active], tried[active], lost[active]
                    target = None if target is None else target[active]
                    if not len(index):
                        return
                left = torch.where(lost, self.beta, x.new_ones(())).view(-1, *[1] * (x.dim() - 1))
                adv = x.lerp(tried, left)
            state.resume_state.report_progress((step + 1) / self.steps)

        last = project(tried, x, self.eps, self.norm)
        state.record(index, last, state.wrong(state.forward(last, index), index) if state.verify_last else False)

    def _boundary(self, state: AttackState, at: Tensor, index: Tensor, target: Tensor | None) -> tuple[Tensor, Tensor]:
        """By how much a wrong logit is above the right one, (n,), and the gradient: the target's, or the nearest's."""
        if target is not None:
            gradient, value, _ = state.gradient(at, index, resolve_loss("margin"), target=target)
            return value, gradient
        nearest = at.new_full((len(at),), torch.inf)
        value, gradient = torch.zeros_like(nearest), torch.zeros_like(at)
        for other_value, other_gradient in state.boundaries(at, index):
            way = hyperplane_distance(other_gradient.flatten(1), other_value, self.norm)
            nearer = way < nearest
            nearest, value = torch.where(nearer, way, nearest), torch.where(nearer, other_value, value)
            gradient = torch.where(nearer.view(-1, *[1] * (at.dim() - 1)), other_gradient, gradient)
        return value, gradient

    def _step(self, x: Tensor, adv: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
        """Where the next iterate is, given the boundary as seen from adv."""
        shape, x, adv, gradient = x.shape, x.flatten(1), adv.flatten(1), gradient.flatten(1)
        here = hyperplane_step(adv, gradient, value, self.norm)
        there = hyperplane_step(x, gradient, value + (x - adv).mul_(gradient).sum(1), self.norm)
        nowhere = x.new_zeros(())
        way, direct = (distance(d, nowhere, self.norm).clamp_(min=least(x.dtype, LEAST)) for d in (here, there))
        share = (way / (way + direct)).clamp_(max=self.alpha_max)[:, None]
        here.mul_(self.overshoot).add_(adv)
        there.mul_(self.overshoot).add_(x)
        return here.lerp_(there, share).clamp_(0.0, 1.0).view(shape)
