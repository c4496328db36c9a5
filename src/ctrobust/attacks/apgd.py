"""Auto-PGD of Croce and Hein, and with loss="std" the paper's S-APGD."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from ctrobust import draws
from ctrobust.attacks.apgd_state import APGDState
from ctrobust.attacks.attack_losses import Loss, resolve_loss
from ctrobust.attacks.attack_state import AttackState
from ctrobust.attacks.base import Attack
from ctrobust.attacks.field_checks import check_choice, check_count, check_eps, check_loss, check_share
from ctrobust.attacks.projections import NORMS, Norm, steepest
from ctrobust.attacks.random_starts import sphere_start
from ctrobust.attacks.stages import Stage
from ctrobust.errors import InputError

MOMENTUM = 0.75
"""The share of the new direction in a step; the rest is of the step before."""


def checkpoints(steps: int) -> dict[int, int]:
    """After which steps the sizes are looked at, and how many steps each window has.

    Windows are of .22 of all steps, shrinking by .03 down to .06, rounded down but at least 1.

    Example:
        >>> checkpoints(100)
        {22: 22, 41: 19, 57: 16, 70: 13, 80: 10, 87: 7, 93: 6, 99: 6}
    """
    window, shrink, least = (max(percent * steps // 100, 1) for percent in (22, 3, 6))
    found, end = {}, window
    while end <= steps:
        found[end] = window
        window = max(window - shrink, least)
        end += window
    return found


@dataclass(frozen=True)
class APGD(Attack):
    """Momentum steps from the ball's sphere, first of 2 eps, halved for each example where its own ascent stalls.

    z = P(x_k + s_k sign grad L(x_k));  x_{k+1} = P(x_k + a (z - x_k) + (1 - a) (x_k - x_{k-1})),  a = .75, first 1

    P is the ball, then the box; in l2 the gradient is scaled to length 1 in place of its sign. At a checkpoint s is
    halved and x goes back to its best iterate if at most `rho` of the window's steps raised the loss, or if s was not
    halved at the last checkpoint and the best loss is what it was there. Losses are ascended in an increasing form (see
    `objectives`): directions and comparisons are those of the loss itself. The first iterate that fools ends an
    example's attack; who is never fooled is given back at the best iterate.

    An example that stands costs the clean pass and, in each part, 1 + steps passes forward and backward, as in the
    authors' code.

    Attributes:
        eps: radius of the ball.
        steps: how many.
        loss: "ce", "sce(gamma=5)", "kl", "skl(gamma=1,std_at=adv)", "std", "dlr", "margin", or in Python a callable
            (logits, y, clean_logits) -> (N,).
        norm: "linf" or "l2".
        rho: the share of rising steps that a size must exceed to stay.
        restarts: from other random starts, on those who still stand.
        eot: gradients averaged for each step, for models that draw at random.
        targets: in turn towards each of so many best wrong classes of the clean output, or all where there are fewer,
            by losses ce, margin or dlr; any wrong class counts. 0 is untargeted.
        targeted: y are the classes to reach; for losses ce and margin.
        seed: of the random start.

    Example:
        >>> print(APGD(eps=8 / 255, loss="dlr", targets=9))
        apgd:eps=8/255,loss=dlr,targets=9
    """

    revision: ClassVar[int] = 0

    eps: float
    steps: int = 100
    loss: str | Loss = "ce"
    norm: Norm = "linf"
    rho: float = 0.75
    restarts: int = 1
    eot: int = 1
    targets: int = 0
    targeted: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice(self.norm, "norm", NORMS)
        check_eps(self.eps, self.norm)
        for name in ("steps", "restarts", "eot"):
            check_count(getattr(self, name), name)
        check_share(self.rho, "rho")
        if type(self.targets) is not int or self.targets < 0:
            raise InputError(f"targets is a whole number of at least 0, got {self.targets}")
        if self.targets and self.targeted:
            raise InputError(f"targets={self.targets} chooses wrong classes; with targeted y already are the classes")
        object.__setattr__(self, "loss", check_loss(self.loss, targeted=self.targeted, toward_target=self.targets > 0))

    def run_stage(self, state: AttackState, stage: Stage) -> None:
        """All steps from one start."""
        state.drop_misclassified()
        index = state.active()
        if not len(index):
            return
        ascended, x, checks = resolve_loss(self.loss), state.x[index], checkpoints(self.steps)
        stream = draws.stream(self.seed, "apgd", stage.restart, stage.target)
        adv = sphere_start(x, state.keys[index], stream, self.eps, self.norm)
        apgd_state = APGDState.begin(index, x, adv, 2 * self.eps)
        targets = state.target(torch.arange(len(state.x), device=x.device), stage.target) if stage.target else None

        for step in range(self.steps + 1):
            if step:
                apgd_state.step(MOMENTUM if step > 1 else 1.0, self.eps, self.norm)
            target = None if targets is None else targets[apgd_state.index]
            at, index = apgd_state.adv, apgd_state.index
            active, gradient, loss = state.gradient_of_active(at, index, ascended, target=target, eot=self.eot)
            if len(loss) < len(index):
                state.record(index[~active], at[~active], fooled=True)
                apgd_state.select(active)
                if not len(loss):
                    return
            apgd_state.update_best(steepest(gradient, self.norm), loss)
            if step in checks:
                apgd_state.checkpoint(max_increases=self.rho * checks[step])
            state.resume_state.report_progress(step / self.steps)
        state.record(apgd_state.index, apgd_state.best, fooled=False)
