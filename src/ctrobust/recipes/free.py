"""Free adversarial training: each backward pass gives the gradient of the weights and of the perturbation."""

from collections.abc import Iterator, Mapping
from typing import Literal

import torch
from torch import Tensor

from ctrobust.argument_checks import check_count
from ctrobust.attacks.model_checks import check_batch
from ctrobust.errors import InputError
from ctrobust.model_outputs import as_logits
from ctrobust.recipes.interface import Network
from ctrobust.recipes.processes import Processes, SingleProcess
from ctrobust.recipes.recipe_losses import GammaIn, check_attack, label_losses, warn_of_softmax


class Free:
    """Free-AT, with gamma > 0 Free-AT with CTR: each batch is replayed; one backward pass serves descent and attack.

    min L_SCE(f(x + d), y | gamma), d <- clip(d + step_size sign grad_d L_SCE(f(x + d), y | gamma))

    The perturbation d starts at zero once and persists: a batch begins with the perturbation that the previous batch
    left at the same positions, clipped so that x + d is in [0, 1]. A smaller last batch uses the first positions.
    """

    one_step_size: float | None = None

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
        """Set up Free-AT.

        Args:
            eps: radius of the ball.
            replays: number of optimizer steps per batch.
            step_size: size of the perturbation's step in each replay; None is eps.
            gamma: weight of the deviation in SCE; 0 is the baseline with CE, bit for bit.
            gamma_in: "both", or "attack" or "descent" to use gamma only there, which costs a second backward pass per
                replay.
            loss: "sce", or "std" for STD alone in attack and descent.
            processes: the processes that share the batch, each with the positions of its rank modulo the world size;
                None is a single process.
        """
        check_attack(eps, step_size)
        check_count(replays, "replays")
        self.eps, self.replays, self.step_size = eps, replays, eps if step_size is None else step_size
        self.attack_loss, self.descent_loss = label_losses(loss, gamma, gamma_in)
        self.processes = processes or SingleProcess()
        self.delta: Tensor | None = None

    def __call__(self, model: Network, x: Tensor, y: Tensor, keys: Tensor | None = None) -> Iterator[Tensor]:
        """Yield the loss of each replay; the perturbation takes its step when the next loss is requested."""
        check_batch(x, y, keys, check_range=self.delta is None)
        delta = self._stored_delta(x).clamp_(-x, 1 - x)
        for _ in range(self.replays):
            leaf = delta.detach().requires_grad_()
            logits = as_logits(model(x + leaf))
            warn_of_softmax(logits)
            gradient = None
            if self.attack_loss is not self.descent_loss:
                (gradient,) = torch.autograd.grad(self.attack_loss(logits, y).sum(), leaf, retain_graph=True)
            yield self.descent_loss(logits, y).mean()
            gradient = leaf.grad if gradient is None else gradient
            if gradient is None:
                raise InputError(
                    "the perturbation has no gradient: call backward on each loss before requesting the next one"
                )
            moved = delta.add(gradient.sign(), alpha=self.step_size)
            delta = moved.clamp_(-self.eps, self.eps).clamp_(-x, 1 - x)
        self._store_delta(delta)

    def _stored_delta(self, x: Tensor) -> Tensor:
        """A copy of the perturbation at this batch's positions, in the memory format of x; zero at new positions."""
        delta = torch.zeros_like(x)
        if self.delta is not None:
            if self.delta.shape[1:] != x.shape[1:]:
                raise InputError(
                    f"the stored perturbation is for images of shape {tuple(self.delta.shape[1:])}; "
                    f"got {tuple(x.shape[1:])}"
                )
            count = min(len(x), len(self.delta))
            delta[:count].copy_(self.delta[:count])
        return delta

    def _store_delta(self, delta: Tensor) -> None:
        """Replace the first positions and leave the others as they are."""
        rest = [] if self.delta is None else [self.delta[len(delta) :].to(delta)]
        self.delta = torch.cat([delta, *rest])

    def end_epoch(self) -> None:
        """Do nothing: the perturbation persists across epochs."""

    def state_dict(self) -> dict[str, Tensor]:
        """The perturbations of all processes, in the order of the batch's positions."""
        if self.delta is None:
            return {}
        positions = torch.arange(self.processes.index, self.processes.count * len(self.delta), self.processes.count)
        order = self.processes.gather(positions).argsort()
        return {"delta": self.processes.gather(self.delta.cpu())[order]}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.delta = state["delta"][self.processes.index :: self.processes.count].clone() if "delta" in state else None
