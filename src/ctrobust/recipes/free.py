"""Free adversarial training: each pass gives the weights' gradient and the perturbation's."""

from collections.abc import Iterator, Mapping
from typing import Literal

import torch
from torch import Tensor

from ctrobust.attacks.field_checks import check_count
from ctrobust.attacks.model_checks import check_batch
from ctrobust.errors import InputError
from ctrobust.recipes.interface import Network
from ctrobust.recipes.processes import Processes, SingleProcess
from ctrobust.recipes.recipe_losses import GammaIn, check_attack, label_losses, warn_of_softmax


class Free:
    """Free-AT, with gamma > 0 Free-AT with CTR: each batch is replayed, and one pass serves descent and attack.

    min L_SCE(f(x + d), y | gamma), d <- clip(d + step_size sign grad_d L_SCE(f(x + d), y | gamma))

    The perturbation d starts at zero once and persists: a batch begins with the one that the batch before left at the
    same positions, brought into the box around its own images. A smaller last batch uses the first positions.
    """

    def __init__(
        self,
        eps: float = 8 / 255,
        replays: int = 8,
        step_size: float | None = None,
        gamma: float = 0.0,
        gamma_in: GammaIn = "both",
        loss: Literal["sce", "std"] = "sce",
        processes: Processes | None = None,
    ) -> None:
        """Free-AT.

        Args:
            eps: radius of the ball.
            replays: optimizer steps a batch.
            step_size: of the perturbation, a replay; None is eps.
            gamma: weight of the deviation in SCE; 0 is the baseline with CE, to the bit.
            gamma_in: "both", or only the "attack" or the "descent" has gamma: then a replay makes a second backward
                pass.
            loss: "sce", or "std" for STD alone in attack and descent.
            processes: the processes that the batch is spread over, each with every so-manieth position.
        """
        check_attack(eps, step_size)
        check_count(replays, "replays")
        self.eps, self.replays, self.step_size = eps, replays, eps if step_size is None else step_size
        self.attack, self.descent = label_losses(loss, gamma, gamma_in)
        self.processes = processes or SingleProcess()
        self.delta: Tensor | None = None

    def __call__(self, model: Network, x: Tensor, y: Tensor, keys: Tensor | None = None) -> Iterator[Tensor]:
        """Yield the loss of each replay; the perturbation moves on when the generator is resumed."""
        check_batch(x, y, keys)
        delta = self._kept(x).clamp_(-x, 1 - x)
        for _ in range(self.replays):
            at = delta.detach().requires_grad_()
            logits = model(x + at)
            warn_of_softmax(logits)
            gradient = None
            if self.attack is not self.descent:
                (gradient,) = torch.autograd.grad(self.attack(logits, y).sum(), at, retain_graph=True)
            yield self.descent(logits, y).mean()
            gradient = at.grad if gradient is None else gradient
            if gradient is None:
                raise InputError("the loss was not descended: call backward on it before asking for the next")
            moved = delta.add(gradient.sign(), alpha=self.step_size)
            delta = moved.clamp_(-self.eps, self.eps).clamp_(-x, 1 - x)
        self._keep(delta)

    def _kept(self, x: Tensor) -> Tensor:
        """The perturbation of this batch's positions, laid out in memory as x; zero where there was none."""
        delta = torch.zeros_like(x)
        if self.delta is not None:
            if self.delta.shape[1:] != x.shape[1:]:
                raise InputError(
                    f"the perturbation is for images {tuple(self.delta.shape[1:])}, got {tuple(x.shape[1:])}"
                )
            count = min(len(x), len(self.delta))
            delta[:count].copy_(self.delta[:count])
        return delta

    def _keep(self, delta: Tensor) -> None:
        """Keep it at the first positions, and at the others what was there."""
        rest = [] if self.delta is None else [self.delta[len(delta) :].to(delta)]
        self.delta = torch.cat([delta, *rest])

    def end_epoch(self) -> None:
        """Nothing: the perturbation persists."""

    def state_dict(self) -> dict[str, Tensor]:
        """The perturbation of the whole batch, in the order of its positions."""
        if self.delta is None:
            return {}
        places = torch.arange(self.processes.index, self.processes.count * len(self.delta), self.processes.count)
        order = self.processes.gather(places).argsort()
        return {"delta": self.processes.gather(self.delta.cpu())[order]}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from there."""
        self.delta = state["delta"][self.processes.index :: self.processes.count].clone() if "delta" in state else None
