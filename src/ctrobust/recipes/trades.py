"""TRADES: descend the loss of clean images and the divergence of attacked ones from them."""

from collections.abc import Callable, Iterator, Mapping
from typing import Literal

import torch
from torch import Tensor

from ctrobust import losses
from ctrobust.attacks.field_checks import check_count
from ctrobust.attacks.model_checks import check_batch
from ctrobust.losses.inputs import check_choice, check_number
from ctrobust.recipes.interface import AttackableModel, Network
from ctrobust.recipes.recipe_losses import GammaIn, check_attack, gammas
from ctrobust.recipes.signed_steps import Starts, take_signed_steps, under_attack

STEP = 0.007 / (8 / 255)
"""The published step in units of the published radius."""


class Trades:
    """TRADES, with gamma > 0 TRADES with CTR: signed steps up the divergence, then one descent through both outputs.

    min L_SCE(f(x), y | gamma) + beta L_SKL(f(x*), f(x), y | gamma), x* from steps up L_SKL(f(x'), f(x), y | gamma)

    The attack is in eval mode, from x + 0.001 N(0, 1). The descent makes two passes in the model's own mode, which is
    training mode: x, whose output serves both terms, then x*. They are never one batch, so that BatchNorm sees each
    kind alone. The published code runs x through the network twice there.
    """

    def __init__(
        self,
        eps: float = 8 / 255,
        steps: int = 10,
        step_size: float | None = None,
        beta: float = 6.0,
        gamma: float = 0.0,
        gamma_in: GammaIn = "both",
        std_at: Literal["adv", "clean"] = "adv",
        loss: Literal["skl", "std"] = "skl",
        seed: int = 0,
        inner: AttackableModel | None = None,
    ) -> None:
        """TRADES.

        Args:
            eps: radius of the ball.
            steps: of the attack.
            step_size: of each; None is 0.223125 eps, 0.007 at 8/255.
            beta: weight of the divergence.
            gamma: weight of the deviation in SCE and SKL; 0 is the baseline with CE and KL, to the bit.
            gamma_in: "both", or only the "attack" or the "descent" has gamma.
            std_at: the output whose deviation SKL takes, "adv" or "clean".
            loss: "skl", or "std" for STD alone: it takes the place of SKL in the attack, and of both SCE and SKL in
                the descent, L_STD(f(x), y) + beta L_STD(f(x*), y).
            seed: of the starts.
            inner: the network as the attack calls it, under DDP the module inside; None is the model itself.
        """
        check_choice(loss, "loss", ("skl", "std"))
        check_attack(eps, step_size)
        check_count(steps, "steps")
        check_number(beta, "beta")
        check_choice(std_at, "std_at", ("adv", "clean"))
        self.eps, self.steps, self.beta = eps, steps, beta
        self.step_size = STEP * eps if step_size is None else step_size
        self.loss, self.std_at = loss, std_at
        self.attack_gamma, self.gamma = gammas(gamma, gamma_in)
        self.starts, self.inner = Starts(seed), inner

    def __call__(self, model: Network, x: Tensor, y: Tensor, keys: Tensor | None = None) -> Iterator[Tensor]:
        """Yield the loss of the batch once."""
        keys = check_batch(x, y, keys)
        inner: AttackableModel = model if self.inner is None else self.inner
        with under_attack(inner, evaluating=True):
            adv = take_signed_steps(
                inner, x, self.starts.normal(x, keys, 0.001), self._attack(inner, x, y),
                eps=self.eps, step_size=self.step_size, steps=self.steps,
            )  # fmt: skip
        clean_logits = model(x)
        yield self._descent(model(adv), clean_logits, y).mean()

    def _attack(self, inner: AttackableModel, x: Tensor, y: Tensor) -> Callable[[Tensor], Tensor]:
        """What the attack ascends, of the attacked logits; the clean ones are a constant to it."""
        if self.loss == "std":
            return lambda logits: losses.std(logits, y)
        with torch.no_grad():
            clean_logits = inner(x)
        return lambda logits: losses.skl(logits, clean_logits, y, gamma=self.attack_gamma, std_at=self.std_at)

    def _descent(self, logits: Tensor, clean_logits: Tensor, y: Tensor) -> Tensor:
        if self.loss == "std":
            return losses.std(clean_logits, y) + self.beta * losses.std(logits, y)
        divergence = losses.skl(logits, clean_logits, y, gamma=self.gamma, std_at=self.std_at)
        return losses.sce(clean_logits, y, gamma=self.gamma) + self.beta * divergence

    def end_epoch(self) -> None:
        """Nothing."""

    def state_dict(self) -> dict[str, Tensor]:
        """How many batches were begun, which keys the starts."""
        return self.starts.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from there."""
        self.starts.load_state_dict(state)
