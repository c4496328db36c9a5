"""Auto-PGD of Croce and Hein, and with loss="std" the paper's S-APGD."""

from dataclasses import dataclass

import torch

from ctrobust import draws
from ctrobust.attacks.apgd_state import APGDState
from ctrobust.attacks.attack_losses import resolve_loss
from ctrobust.attacks.attack_state import AttackState
from ctrobust.attacks.base import Attack
from ctrobust.attacks.projections import steepest
from ctrobust.attacks.random_starts import sphere_start
from ctrobust.attacks.stages import Stage
from ctrobust.specs.attack_fields import APGDFields

MOMENTUM = 0.75
"""The paper's alpha: the weight of the new step; the previous step has the rest."""


def checkpoint_windows(steps: int) -> dict[int, int]:
    """Map the step of each checkpoint to the number of steps of the window that it ends.

    The first window has .22 of all steps; each next one is shorter by .03 of them, but not below .06. Lengths are
    rounded down and are at least 1.

    Example:
        >>> checkpoint_windows(100)
        {22: 22, 41: 19, 57: 16, 70: 13, 80: 10, 87: 7, 93: 6, 99: 6}
    """
    window, decrease, shortest = (max(percent * steps // 100, 1) for percent in (22, 3, 6))
    windows, checkpoint = {}, window
    while checkpoint <= steps:
        windows[checkpoint] = window
        window = max(window - decrease, shortest)
        checkpoint += window
    return windows


@dataclass(frozen=True)
class APGD(APGDFields, Attack):
    """PGD with momentum and a step size of 2 eps that is halved for each example whose loss stalls.

    z = P(x_k + s_k sign grad L(x_k));  x_{k+1} = P(x_k + a (z - x_k) + (1 - a) (x_k - x_{k-1})),  a = .75, first 1

    P projects on the ball, then on the box; in l2 the step is the gradient scaled to length 1 instead of its sign. The
    start is on the sphere of the ball. At a checkpoint s is halved and x returns to its best iterate if at most a
    fraction `rho` of the window's steps increased the loss, or if s was not halved at the last checkpoint and the best
    loss has not increased since. Losses are replaced by increasing functions of themselves (see `attack_losses`), which
    changes neither directions nor comparisons. An example's attack ends at its first misclassified iterate; an example
    that is never misclassified gets its best iterate.

    A robust example costs the clean forward pass and, in each stage, 1 + steps forward and backward passes, as in the
    authors' code.

    Attributes:
        eps: radius of the ball.
        steps: number of steps.
        loss: a name of `ATTACK_LOSSES`, with its parameters as in "sce(gamma=5)" or "skl(gamma=1,std_at=adv)", or in
            Python a callable (logits, y, clean_logits) -> (N,).
        norm: "linf" or "l2".
        rho: fraction of loss-increasing steps in a window above which the step size is kept.
        restarts: number of random starts, each on the remaining examples.
        eot: number of gradients averaged in each step (expectation over transformation), for randomized models.
        targets: number of target classes, attacked in turn: the wrong classes of the largest clean logits, or all wrong
            classes if there are fewer; for losses with a form toward a class. Any wrong class is a success. 0 is
            untargeted.
        targeted: y are the classes to reach; for losses with a form toward a class but dlr.
        seed: seed of the random start.

    Example:
        >>> print(APGD(eps=8 / 255, loss="dlr", targets=9))
        apgd:eps=8/255,loss=dlr,targets=9
    """

    def run_stage(self, state: AttackState, stage: Stage) -> None:
        state.drop_misclassified()
        index = state.active()
        if not len(index):
            return
        attack_loss, x, windows = resolve_loss(self.loss), state.x[index], checkpoint_windows(self.steps)
        stream = draws.stream(self.seed, "apgd", stage.restart, stage.target)
        cold = stage.restart + stage.target  # towards a target class there is no warm start
        adv = state.start(index, cold, lambda x, keys: sphere_start(x, keys, stream, self.eps, self.norm))
        apgd_state = APGDState.begin(index, x, adv, 2 * self.eps)
        targets = state.target(torch.arange(len(state.x), device=x.device), stage.target) if stage.target else None

        for step in range(self.steps + 1):
            if step:
                apgd_state.step(MOMENTUM if step > 1 else 1.0, self.eps, self.norm)
            target = None if targets is None else targets[apgd_state.index]
            adv, index = apgd_state.adv, apgd_state.index
            broken, active, gradient, loss = state.gradient_of_active(
                adv, index, attack_loss, target=target, eot=self.eot
            )
            if len(broken):
                state.record(index[broken], adv[broken], fooled=True)
                apgd_state.select(active)
                if not len(loss):
                    return
            apgd_state.update_best(steepest(gradient, self.norm), loss)
            if step in windows:
                apgd_state.checkpoint(max_increases=self.rho * windows[step])
            state.resume_state.report_progress(step / self.steps)
        state.record(apgd_state.index, apgd_state.best, fooled=False)
