"""The fast gradient sign method, and with loss="std" the paper's S-FGSM."""

from dataclasses import dataclass

from torch import Tensor

from ctrobust import draws
from ctrobust.attacks.attack_losses import resolve_loss
from ctrobust.attacks.attack_state import AttackState
from ctrobust.attacks.base import Attack
from ctrobust.attacks.gradient_loop import run_gradient_loop
from ctrobust.attacks.projections import steepest
from ctrobust.attacks.random_starts import near_start
from ctrobust.attacks.stages import Stage
from ctrobust.specs.attack_fields import FGSMFields


@dataclass(frozen=True)
class FGSM(FGSMFields, Attack):
    """FGSM, one step of size eps along the sign of the gradient: clip(x + eps sign grad L(f(x), y), 0, 1).

    KL and SKL, whose gradient at x is zero, are differentiated at x + 0.001 N(0, 1). In l2 (the fast gradient method)
    the step is the gradient scaled to norm eps.

    Attributes:
        eps: radius of the ball.
        loss: a name of `ATTACK_LOSSES`, with its parameters as in "sce(gamma=5)" or "skl(gamma=1,std_at=adv)", or in
            Python a callable (logits, y, clean_logits) -> (N,).
        norm: "linf" or "l2".
        targeted: whether y are the classes to reach; for losses with a form toward a class but dlr.
        success: "any" does not attack misclassified examples; "last" attacks them too.
        seed: seed of the random start.

    Example:
        >>> print(FGSM(eps=8 / 255, loss="sce(gamma=5.0)"))
        fgsm:eps=8/255,loss=sce(gamma=5)
    """

    steps = 1

    def uses_keys(self) -> bool:
        """Return whether the loss needs a random start: other losses are differentiated at the image itself."""
        return resolve_loss(self.loss).flat_at_clean

    def run_stage(self, state: AttackState, stage: Stage) -> None:  # noqa: ARG002 - the only stage
        attack_loss = resolve_loss(self.loss)
        stream = draws.stream(self.seed, "fgsm")

        def start(x: Tensor, keys: Tensor) -> Tensor:
            return near_start(x, keys, stream, self.eps, self.norm)

        def step(_: Tensor, x: Tensor, __: Tensor, gradient: Tensor) -> Tensor:
            return x.add(steepest(gradient, self.norm), alpha=self.eps).clamp_(0.0, 1.0)

        run_gradient_loop(
            state, attack_loss,
            start=start if attack_loss.flat_at_clean else None, step=step, steps=1,
            success=self.success, verify_last=state.verify_last,
        )  # fmt: skip
