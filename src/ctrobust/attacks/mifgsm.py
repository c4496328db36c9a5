"""The momentum iterative fast gradient sign method."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ctrobust import draws
from ctrobust.attacks.attack_losses import resolve_loss
from ctrobust.attacks.attack_state import AttackState
from ctrobust.attacks.base import Attack
from ctrobust.attacks.gradient_loop import run_gradient_loop
from ctrobust.attacks.projections import project, steepest
from ctrobust.attacks.random_starts import near_start
from ctrobust.attacks.stages import Stage
from ctrobust.specs.attack_fields import MIFGSMFields


@dataclass(frozen=True)
class MIFGSM(MIFGSMFields, Attack):
    """MI-FGSM, steps along the sign of an accumulated gradient, from the image itself.

    g <- momentum g + grad / mean |grad|;  x_adv <- clip(x_adv + step_size sign g) to the ball, then the box

    Attributes:
        eps: radius of the ball.
        steps: number of steps.
        step_size: size of each step; None is eps / 4, 2/255 at 8/255.
        momentum: decay factor of the accumulated gradient, mu in the paper.
        loss: as for PGD.
        norm: "linf" or "l2", where the step is the accumulated gradient scaled to norm step_size.
        eot: number of passes over which each gradient is averaged, for models that draw at random.
        targeted: whether y are the classes to reach; for losses with a form toward a class but dlr.
        success: "any" stops an example at the first iterate that fools the model; "last" makes all steps.
        seed: seed of the start for KL and SKL.

    Example:
        >>> print(MIFGSM(eps=8 / 255, momentum=0.9))
        mifgsm:eps=8/255,momentum=0.9
    """

    def uses_keys(self) -> bool:
        """Return whether the loss needs a random start: other losses are differentiated at the image itself."""
        return resolve_loss(self.loss).flat_at_clean

    def run_stage(self, state: AttackState, stage: Stage) -> None:  # noqa: ARG002 - the only stage
        size = self.eps / 4 if self.step_size is None else self.step_size
        attack_loss, stream = resolve_loss(self.loss), draws.stream(self.seed, "mifgsm")
        accumulated = torch.zeros_like(state.x)

        def start(x: Tensor, keys: Tensor) -> Tensor:
            return near_start(x, keys, stream, self.eps, self.norm)

        def step(index: Tensor, x: Tensor, adv: Tensor, gradient: Tensor) -> Tensor:
            mean = gradient.flatten(1).abs().mean(1).view(-1, *[1] * (x.dim() - 1))
            gradient.div_(torch.where(mean > 0, mean, 1.0))  # a zero gradient adds nothing
            accumulated[index] = gradient.add_(accumulated[index], alpha=self.momentum)
            return project(adv.add(steepest(gradient, self.norm), alpha=size), x, self.eps, self.norm)

        run_gradient_loop(
            state, attack_loss,
            start=start if attack_loss.flat_at_clean else None, step=step, steps=self.steps,
            success=self.success, eot=self.eot, verify_last=state.verify_last,
        )  # fmt: skip
