"""Projected gradient descent, and with loss="std" the paper's S-PGD."""

from dataclasses import dataclass

from torch import Tensor

from ctrobust import draws
from ctrobust.attacks.attack_losses import resolve_loss
from ctrobust.attacks.attack_state import AttackState
from ctrobust.attacks.base import Attack
from ctrobust.attacks.gradient_loop import run_gradient_loop
from ctrobust.attacks.projections import project, steepest
from ctrobust.attacks.random_starts import ball_start, near_start
from ctrobust.attacks.stages import Stage
from ctrobust.specs.attack_fields import PGDFields


@dataclass(frozen=True)
class PGD(PGDFields, Attack):
    """PGD, steps along the gradient's sign from a uniform start, each projected on the ball and then on the box.

    x_adv <- clip(x + clip(x_adv + step_size sign grad L(f(x_adv), y) - x, -eps, eps), 0, 1)

    In l2 the step is the gradient scaled to norm step_size, and the ball is the l2 ball.

    Attributes:
        eps: radius of the ball.
        steps: number of steps.
        step_size: size of each step; None is eps / 4.
        loss: a name of `ATTACK_LOSSES`, with its parameters as in "sce(gamma=5)" or "skl(gamma=1,std_at=adv)", or in
            Python a callable (logits, y, clean_logits) -> (N,).
        norm: "linf" or "l2".
        random_start: whether the start is uniform in the ball; False starts at the image, which is BIM.
        restarts: number of random starts, each for the examples that are still active.
        eot: number of passes over which each gradient is averaged, for models that draw at random.
        targeted: whether y are the classes to reach; for losses with a form toward a class but dlr.
        success: "any" stops an example at the first iterate that fools the model, for evaluation; "last" makes all
            steps, for adversarial training and for tables made with torchattacks.
        seed: seed of the random start.

    Example:
        >>> print(PGD(eps=8 / 255, steps=20, step_size=2 / 255, loss="std"))
        pgd:eps=8/255,step_size=2/255,loss=std
    """

    def uses_keys(self) -> bool:
        return self.random_start or resolve_loss(self.loss).flat_at_clean

    def run_stage(self, state: AttackState, stage: Stage) -> None:
        size = self.eps / 4 if self.step_size is None else self.step_size
        restart = (stage.restart,) if stage.restart else ()
        stream, attack_loss = draws.stream(self.seed, "pgd", *restart), resolve_loss(self.loss)

        def start(x: Tensor, keys: Tensor) -> Tensor:
            if not self.random_start:
                return near_start(x, keys, stream, self.eps, self.norm)
            return project(ball_start(x, keys, stream, self.eps, self.norm), x, self.eps, self.norm)

        def step(_: Tensor, x: Tensor, adv: Tensor, gradient: Tensor) -> Tensor:
            return project(adv.add(steepest(gradient, self.norm), alpha=size), x, self.eps, self.norm)

        run_gradient_loop(
            state, attack_loss,
            start=start if self.random_start or attack_loss.flat_at_clean else None, step=step, steps=self.steps,
            success=self.success, eot=self.eot, restart=stage.restart, verify_last=state.verify_last,
        )  # fmt: skip
