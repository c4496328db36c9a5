"""The attacks of Carlini and Wagner in l-infinity, in three forms, and in l2."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ctrobust.attacks.attack_losses import resolve_loss
from ctrobust.attacks.attack_state import AttackState
from ctrobust.attacks.base import Attack
from ctrobust.attacks.cw_box import run_line_search
from ctrobust.attacks.cw_l2 import BinarySearch
from ctrobust.attacks.cw_linf import TauSchedule
from ctrobust.attacks.pgd import PGD
from ctrobust.attacks.projections import distance, project
from ctrobust.attacks.stages import Stage
from ctrobust.attacks.tanh_descent import TanhAdam
from ctrobust.specs.attack_fields import CWFields


class WeightSchedule(Protocol):
    """The weights of margin loss and perturbation in the objective, and when they change."""

    def select(self, active: Tensor) -> None:
        """Keep only the active examples."""
        ...

    def gradient(self, margin_gradient: Tensor, perturbation: Tensor) -> Tensor:
        """Return the gradient of the objective with respect to the images."""
        ...

    def finished(self, count: Tensor, steps: int, fooled: Tensor, distance: Tensor, shortfall: Tensor) -> Tensor:
        """Return the mask (n,) of examples whose round or search is over."""
        ...

    def update(self, finished: Tensor) -> Tensor:
        """Change the weights of the finished examples; return the mask (n,) of those with no round or search left."""
        ...


@dataclass(frozen=True)
class CW(CWFields, Attack):
    """Increase the margin max_{j != y} z_j - z_y with a small perturbation d; success is an image inside the ball.

    Form "box", the paper's, is CarliniLInfMethod of ART up to 1.8.1, in linf only: it minimizes max(0, confidence -
    margin) over w with x_adv = low + (high - low) (tanh w + 1) / 2, where low and high are the corners of the ball cut
    by [0, 1], by gradient descent with a line search. Unlike there, a robust example gets the last iterate and not x.

    Form "tanh" runs Adam on w with x_adv = (tanh w + 1) / 2. In linf, with the defaults of ART since 1.9, rounds of 10
    steps from x minimize c max(0, -margin) + sum_i max(0, |d_i| - tau), with c doubling from 1e-5 to 20 and tau
    shrinking by .9 from 1. In l2 each search minimizes |d|^2 + c max(0, -margin), with c bisected from 1e-3. An
    example's attack ends at its first misclassified image inside the ball. For a remaining example, the closest
    misclassified image, or the last image if there is none, is projected on the ball and classified.

    Form "pgd", usual in the literature, is PGD on the margin.

    Attributes:
        eps: radius of the ball.
        norm: "linf" or "l2".
        form: "box", "tanh" or "pgd"; None is box in linf and tanh in l2. The form is always part of the text.
        steps: number of steps, for form "tanh" in each round or search; None is 20 for form "pgd", else 10 in linf and
            100 in l2.
        lr: learning rate of Adam, or the first one of form "box".
        confidence: margin at which an example's attack ends early.
        searches: number of binary search steps for c in l2.
        targeted: y are the classes to reach.
        seed: seed of the random start of form "pgd"; the other forms draw nothing.

    Example:
        >>> print(CW(eps=8 / 255))
        cw:eps=8/255,form=box,steps=10
    """

    def stages(self) -> tuple[Stage, ...]:
        """Return the stage of PGD on the margin for form "pgd"."""
        if self.form != "pgd":
            return (Stage(self),)
        margin_pgd = PGD(
            self.eps, self.steps, loss="margin", norm=self.norm, targeted=self.targeted, seed=self.seed
        )  # fmt: skip
        return margin_pgd.stages()

    def uses_keys(self) -> bool:
        return self.form == "pgd"

    def run_stage(self, state: AttackState, stage: Stage) -> None:  # noqa: ARG002 - there is one
        state.drop_misclassified()
        if self.form == "box":
            run_line_search(state, eps=self.eps, steps=self.steps, lr=self.lr, confidence=self.confidence)
            return
        index = state.active()
        if len(index):
            x = state.x[index]
            schedule: WeightSchedule = (
                TauSchedule.begin(x) if self.norm == "linf" else BinarySearch.begin(x, self.searches)
            )
            self._verify(state, self._descend(state, index, x, schedule))

    def _descend(self, state: AttackState, index: Tensor, x: Tensor, schedule: WeightSchedule) -> Tensor:
        """Run all rounds or searches, each example at its own pace; return the positions of those never broken."""
        robust, rows = [], (-1, *[1] * (x.dim() - 1))
        margin_loss, adam = resolve_loss("margin"), TanhAdam.begin(x)
        adv = adam.images()
        gradient, margin, _ = state.gradient(adv, index, margin_loss)
        start_gradient, start_margin, closest = gradient, margin, x.new_full((len(x),), torch.inf)
        while len(index):
            gradient = gradient * (margin <= self.confidence).view(rows)
            adam.step(adv, schedule.gradient(gradient, adv - x), self.lr)
            adv = adam.images()
            gradient, margin, logits = state.gradient(adv, index, margin_loss)
            length, misclassified = distance(adv, x, self.norm), state.wrong(logits, index)
            confident = misclassified & (margin >= self.confidence)
            broken = confident & (length <= self.eps)
            closer = misclassified & (length < closest) | broken
            if closer.any():
                closest = torch.where(closer, length, closest)
                state.record(index[closer], adv[closer], length[closer] <= self.eps)
            shortfall = (self.confidence - margin).clamp_(min=0.0)
            finished = schedule.finished(adam.count, self.steps, confident, length, shortfall)
            exhausted = schedule.update(finished) & ~broken
            if exhausted.any():
                never_misclassified = exhausted & (closest == torch.inf)
                state.record(index[never_misclassified], adv[never_misclassified], fooled=False)
                robust.append(index[exhausted])
            if finished.any():
                adam.restart(finished)
                adv[finished] = adam.images()[finished]
                gradient[finished], margin[finished] = start_gradient[finished], start_margin[finished]
            if (dropped := exhausted | broken).any():
                active = ~dropped
                adam.select(active)
                schedule.select(active)
                index, x, adv, gradient, margin, closest, start_gradient, start_margin = (
                    tensor[active]
                    for tensor in (index, x, adv, gradient, margin, closest, start_gradient, start_margin)
                )
        return torch.cat(robust) if robust else index

    def _verify(self, state: AttackState, index: Tensor) -> None:
        """Project the images found at these positions on the ball and classify them there."""
        index = index[~state.fooled[index]]
        if not len(index):
            return
        adv = project(state.found[index], state.x[index], self.eps, self.norm)
        state.record(index, adv, state.wrong(state.forward(adv, index), index) if state.verify_last else False)
