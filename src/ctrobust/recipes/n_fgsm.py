"""N-FGSM: one signed step from strong noise, not clipped to the ball."""

import math
from collections.abc import Iterator
from typing import Literal

from torch import Tensor

from ctrobust.attacks.model_checks import check_batch
from ctrobust.model_outputs import as_logits
from ctrobust.recipes.interface import AttackableModel, Network
from ctrobust.recipes.recipe_losses import GammaIn, label_losses
from ctrobust.recipes.signed_steps import SignedStepRecipe, take_signed_steps

NOISE_RATIO = 2.0
"""The published range of the noise in units of eps."""


class NFGSM(SignedStepRecipe):
    """N-FGSM, with gamma > 0 N-FGSM with CTR: one signed step from noise of 2 eps, without a ball; then one descent.

    min L_SCE(f(x*), y | gamma), x* = clip(x' + step_size sign grad L_SCE(f(x'), y | gamma), 0, 1),
    x' = clip(x + U(-2 eps, 2 eps), 0, 1)

    (de Jorge et al., 2022.) x* may be up to 2 eps + step_size away from x. Both forward passes run in the model's own
    mode, which is training mode, so the attack's pass also updates BatchNorm's running statistics.
    """

    def __init__(
        self,
        eps: float = 8 / 255,
        step_size: float | None = None,
        gamma: float = 0.0,
        gamma_in: GammaIn = "both",
        loss: Literal["sce", "std"] = "sce",
        seed: int = 0,
        attack_model: AttackableModel | None = None,
    ) -> None:
        """Set up N-FGSM.

        Args:
            eps: radius for which the network is trained; the noise is drawn from twice that range.
            step_size: size of the one step; None is eps.
            gamma: weight of the deviation in SCE; 0 is the baseline with CE, bit for bit.
            gamma_in: "both", or "attack" or "descent" to use gamma only there.
            loss: "sce", or "std" for STD alone in attack and descent.
            seed: seed of the noise.
            attack_model: the network that the attack calls, under DDP the unwrapped module; None is the model itself.
        """
        super().__init__(eps, 1, step_size, default_ratio=1.0, seed=seed, attack_model=attack_model)
        self.one_step_size = self.step_size
        self.attack_loss, self.descent_loss = label_losses(loss, gamma, gamma_in)

    def __call__(self, model: Network, x: Tensor, y: Tensor, keys: Tensor | None = None) -> Iterator[Tensor]:
        """Yield the loss of the attacked batch once."""
        keys = check_batch(x, y, keys, check_range=self.starts.batch == 0)
        with self.attacking(model) as attacked:
            start = self.starts.uniform(x, keys, NOISE_RATIO * self.eps)
            adv = take_signed_steps(
                attacked, x, start, lambda logits: self.attack_loss(logits, y),
                eps=math.inf, step_size=self.step_size, steps=1,
            )  # fmt: skip
        yield self.descent_loss(as_logits(model(adv)), y).mean()
