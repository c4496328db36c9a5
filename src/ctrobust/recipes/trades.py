"""TRADES: descend the loss of clean images and the divergence of attacked ones from them."""

from collections.abc import Callable, Iterator
from typing import Literal

import torch
from torch import Tensor

from ctrobust import losses
from ctrobust.argument_checks import check_choice, check_number
from ctrobust.attacks.model_checks import check_batch
from ctrobust.errors import InputError
from ctrobust.model_outputs import as_logits
from ctrobust.recipes.interface import AttackableModel, Network
from ctrobust.recipes.recipe_losses import GammaIn, gammas
from ctrobust.recipes.signed_steps import SignedStepRecipe

STEP_RATIO = 0.007 / (8 / 255)
"""The published step size in units of the published radius."""

START_SCALE = 0.001
"""Standard deviation of the random start."""


class Trades(SignedStepRecipe):
    """TRADES, with gamma > 0 TRADES with CTR: signed steps up the divergence, then one descent through both outputs.

    min L_SCE(f(x), y | gamma) + beta L_SKL(f(x*), f(x), y | gamma), x* from steps up L_SKL(f(x'), f(x), y | gamma)

    The attack runs in eval mode, from x + 0.001 N(0, 1). The descent makes two forward passes in the model's own mode,
    which is training mode: one of x, whose output serves both terms, and one of x*. The two are never one batch, so
    that BatchNorm normalizes clean and attacked images apart. The published code passes x a second time for the
    divergence, which weighs BatchNorm's running statistics 2:1 to clean images: `second_clean_pass` does so too.
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
        attack_model: AttackableModel | None = None,
        second_clean_pass: bool = False,
    ) -> None:
        """Set up TRADES.

        Args:
            eps: radius of the ball.
            steps: number of steps of the attack.
            step_size: size of each step; None is 0.223125 eps, 0.007 at 8/255.
            beta: weight of the divergence.
            gamma: weight of the deviation in SCE and SKL; 0 is the baseline with CE and KL, bit for bit.
            gamma_in: "both", or "attack" or "descent" to use gamma only there.
            std_at: the output whose deviation SKL takes, "adv" or "clean".
            loss: "skl", or "std" for STD alone: it takes the place of SKL in the attack, and of both SCE and SKL in
                the descent, L_STD(f(x), y) + beta L_STD(f(x*), y).
            seed: seed of the random starts.
            attack_model: the network that the attack calls, under DDP the unwrapped module; None is the model itself.
            second_clean_pass: whether the divergence takes the clean output from a forward pass of its own, after that
                of x*, as in the published code.
        """
        super().__init__(eps, steps, step_size, default_ratio=STEP_RATIO, seed=seed, attack_model=attack_model)
        check_choice(loss, "loss", ("skl", "std"))
        check_number(beta, "beta")
        check_choice(std_at, "std_at", ("adv", "clean"))
        if second_clean_pass and loss == "std":
            raise InputError("second_clean_pass needs loss 'skl': with loss 'std' there is no divergence from it")
        self.loss, self.beta, self.std_at, self.second_clean_pass = loss, beta, std_at, second_clean_pass
        self.attack_gamma, self.descent_gamma = gammas(gamma, gamma_in)

    def __call__(self, model: Network, x: Tensor, y: Tensor, keys: Tensor | None = None) -> Iterator[Tensor]:
        """Yield the loss of the batch once."""
        keys = check_batch(x, y, keys, check_range=self.starts.batch == 0)
        with self.attacking(model, eval_mode=True) as attacked:
            start = self.starts.normal(x, keys, START_SCALE)
            adv = self.perturb(attacked, x, start, self._attack_objective(attacked, x, y))
        clean_logits = as_logits(model(x))
        adv_logits = as_logits(model(adv))
        reference_logits = as_logits(model(x)) if self.second_clean_pass else clean_logits
        yield self._descent_loss(adv_logits, clean_logits, reference_logits, y).mean()

    def _attack_objective(self, attacked: AttackableModel, x: Tensor, y: Tensor) -> Callable[[Tensor], Tensor]:
        """The objective of the attacked logits; the clean logits are constants in it."""
        if self.loss == "std":
            return lambda logits: losses.std(logits, y)
        with torch.no_grad():
            clean_logits = as_logits(attacked(x))
        return lambda logits: losses.skl(logits, clean_logits, y, gamma=self.attack_gamma, std_at=self.std_at)

    def _descent_loss(self, adv_logits: Tensor, clean_logits: Tensor, reference_logits: Tensor, y: Tensor) -> Tensor:
        """The loss of each example; the divergence is measured from `reference_logits`, a clean output."""
        if self.loss == "std":
            return losses.std(clean_logits, y) + self.beta * losses.std(adv_logits, y)
        divergence = losses.skl(adv_logits, reference_logits, y, gamma=self.descent_gamma, std_at=self.std_at)
        return losses.sce(clean_logits, y, gamma=self.descent_gamma) + self.beta * divergence
