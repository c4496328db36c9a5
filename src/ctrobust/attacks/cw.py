"""The attacks of Carlini and Wagner: in l-infinity in two forms, and in l2."""

from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import torch
from torch import Tensor

from ctrobust.attacks.attack_losses import resolve_loss
from ctrobust.attacks.attack_state import AttackState
from ctrobust.attacks.attack_text import format_attack
from ctrobust.attacks.base import Attack
from ctrobust.attacks.cw_l2 import BinarySearch
from ctrobust.attacks.cw_linf import TauSchedule
from ctrobust.attacks.field_checks import check_choice, check_count, check_eps
from ctrobust.attacks.pgd import PGD
from ctrobust.attacks.projections import NORMS, Norm, distance, project
from ctrobust.attacks.stages import Stage
from ctrobust.attacks.tanh_descent import TanhAdam
from ctrobust.errors import InputError

Form = Literal["tanh", "pgd"]

STEPS: dict[tuple[Norm, Form], int] = {
    ("linf", "tanh"): 10,
    ("l2", "tanh"): 100,
    ("linf", "pgd"): 20,
    ("l2", "pgd"): 20,
}
"""Those of a round, a search, or PGD."""


class Weights(Protocol):
    """How an example's margin and perturbation are weighed, and when otherwise."""

    def select(self, active: Tensor) -> None:
        """Drop the others."""
        ...

    def gradient(self, margin: Tensor, offset: Tensor) -> Tensor:
        """What is descended, with respect to the images."""
        ...

    def finished(self, count: Tensor, steps: int, fooled: Tensor, far: Tensor, missing: Tensor) -> Tensor:
        """(n,) whose descent is over."""
        ...

    def update(self, ended: Tensor) -> Tensor:
        """New weights for those of the mask; (n,) for whom there are none."""
        ...


@dataclass(frozen=True)
class CW(Attack):
    """The margin max_{j != y} z_j - z_y against the size of the perturbation; success is an image inside the ball.

    form "tanh": Adam on w, x_adv = (tanh w + 1) / 2. In linf, with ART's defaults, rounds of 10 steps from x minimize
    c max(0, -margin) + sum_i max(0, |d_i| - tau), c from 1e-5 doubling to 20, tau from 1 shrinking by .9. In l2 each
    search minimizes |d|^2 + c max(0, -margin), c from 1e-3 by bisection. An example is done when an image inside the
    ball fools; of who withstands, the nearest image that fools, or the last, is projected on the ball and judged.
    form "pgd", usual in the literature: PGD on the margin.

    Attributes:
        eps: radius of the ball.
        norm: "linf" or "l2".
        form: "tanh" or "pgd"; always written in the text.
        steps: of a round or search; None is 10 in linf, 100 in l2, 20 for pgd.
        lr: of Adam.
        confidence: how far the wrong class must lead for an example to be done early.
        searches: of c in l2.
        targeted: y are the classes to reach.
        seed: of pgd's start; the other form draws nothing.

    Example:
        >>> print(CW(eps=8 / 255))
        cw:eps=8/255,form=tanh,steps=10
    """

    revision: ClassVar[int] = 0

    eps: float
    norm: Norm = "linf"
    form: Form = "tanh"
    steps: int = None  # type: ignore[assignment]  # replaced when made
    lr: float = 0.01
    confidence: float = 0.0
    searches: int = 9
    targeted: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice(self.norm, "norm", NORMS)
        check_choice(self.form, "form", ("tanh", "pgd"))
        check_eps(self.eps, self.norm)
        if self.steps is None:
            object.__setattr__(self, "steps", STEPS[self.norm, self.form])
        for name in ("steps", "searches"):
            check_count(getattr(self, name), name)
        if not 0.0 < self.lr <= 1.0:
            raise InputError(f"lr is more than 0 and at most 1, got {self.lr}")
        if not 0.0 <= self.confidence < torch.inf:
            raise InputError(f"confidence is finite and at least 0, got {self.confidence}")

    def __str__(self) -> str:
        text = format_attack(self, "cw")
        return text if self.form == "pgd" else text.replace(",steps=", ",form=tanh,steps=", 1)

    def stages(self) -> tuple[Stage, ...]:
        """Return the stage of PGD on the margin for form "pgd"."""
        if self.form == "tanh":
            return (Stage(self),)
        margin_pgd = PGD(
            self.eps, self.steps, loss="margin", norm=self.norm, targeted=self.targeted, seed=self.seed
        )  # fmt: skip
        return margin_pgd.stages()

    def run_stage(self, state: AttackState, stage: Stage) -> None:  # noqa: ARG002 - there is one
        """Run all rounds or searches."""
        state.drop_misclassified()
        index = state.active()
        if len(index):
            x = state.x[index]
            weights: Weights = TauSchedule.begin(x) if self.norm == "linf" else BinarySearch.begin(x, self.searches)
            self._verify(state, self._descend(state, index, x, weights))

    def _descend(self, state: AttackState, index: Tensor, x: Tensor, weights: Weights) -> Tensor:
        """Every round of every example, each at its own pace; the positions of who withstood."""
        withstood, rows = [], (-1, *[1] * (x.dim() - 1))
        margin, descent = resolve_loss("margin"), TanhAdam.begin(x)
        adv = descent.images()
        gradient, lead, _ = state.gradient(adv, index, margin)
        at_start, nearest = (gradient, lead), x.new_full((len(x),), torch.inf)
        while len(index):
            gradient = gradient * (lead <= self.confidence).view(rows)
            descent.step(adv, weights.gradient(gradient, adv - x), self.lr)
            adv = descent.images()
            gradient, lead, logits = state.gradient(adv, index, margin)
            far, fooled = distance(adv, x, self.norm), state.wrong(logits, index)
            sure = fooled & (lead >= self.confidence)
            done = sure & (far <= self.eps)
            nearer = fooled & (far < nearest) | done
            if nearer.any():
                nearest = torch.where(nearer, far, nearest)
                state.record(index[nearer], adv[nearer], far[nearer] <= self.eps)
            ended = weights.finished(descent.count, self.steps, sure, far, (self.confidence - lead).clamp_(min=0.0))
            out = weights.update(ended) & ~done
            if out.any():
                never = out & (nearest == torch.inf)
                state.record(index[never], adv[never], fooled=False)
                withstood.append(index[out])
            if ended.any():
                descent.restart(ended)
                adv[ended] = descent.images()[ended]
                gradient[ended], lead[ended] = at_start[0][ended], at_start[1][ended]
            if (leaves := out | done).any():
                active = ~leaves
                descent.select(active)
                weights.select(active)
                index, x, adv, gradient, lead, nearest = (
                    tensor[active] for tensor in (index, x, adv, gradient, lead, nearest)
                )
                at_start = (at_start[0][active], at_start[1][active])
        return torch.cat(withstood) if withstood else index

    def _verify(self, state: AttackState, index: Tensor) -> None:
        """Project what was last found of these on the ball, and see whether it fools there."""
        index = index[~state.fooled[index]]
        if not len(index):
            return
        adv = project(state.found[index], state.x[index], self.eps, self.norm)
        state.record(index, adv, state.wrong(state.forward(adv, index), index) if state.verify_last else False)
