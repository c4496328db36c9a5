"""Madry's adversarial training: descend the loss of images that several signed steps found."""

from collections.abc import Iterator
from typing import Literal

from torch import Tensor

from ctrobust.attacks.model_checks import check_batch
from ctrobust.model_outputs import as_logits
from ctrobust.recipes.interface import AttackableModel, Network
from ctrobust.recipes.recipe_losses import GammaIn, label_losses
from ctrobust.recipes.signed_steps import SignedStepRecipe


class Madry(SignedStepRecipe):
    """Madry-AT, with gamma > 0 Madry-AT with CTR: several signed steps from a uniform start, then one descent.

    min L_SCE(f(x*), y | gamma), x* from signed steps up L_SCE(f(x'), y | gamma)

    All forward passes run in the model's own mode, which is training mode, so the attack's passes also update
    BatchNorm's running statistics.
    """

    def __init__(
        self,
        eps: float = 8 / 255,
        steps: int = 7,
        step_size: float | None = None,
        gamma: float = 0.0,
        gamma_in: GammaIn = "both",
        loss: Literal["sce", "std"] = "sce",
        seed: int = 0,
        attack_model: AttackableModel | None = None,
    ) -> None:
        """Set up Madry-AT.

        Args:
            eps: radius of the ball.
            steps: number of steps of the attack.
            step_size: size of each step; None is eps / 4, 2/255 at 8/255.
            gamma: weight of the deviation in SCE; 0 is the baseline with CE, bit for bit.
            gamma_in: "both", or "attack" or "descent" to use gamma only there.
            loss: "sce", or "std" for STD alone in attack and descent.
            seed: seed of the random starts.
            attack_model: the network that the attack calls, under DDP the unwrapped module; None is the model itself.
        """
        super().__init__(eps, steps, step_size, default_ratio=0.25, seed=seed, attack_model=attack_model)
        self.attack_loss, self.descent_loss = label_losses(loss, gamma, gamma_in)

    def __call__(self, model: Network, x: Tensor, y: Tensor, keys: Tensor | None = None) -> Iterator[Tensor]:
        """Yield the loss of the attacked batch once."""
        keys = check_batch(x, y, keys, check_range=self.starts.batch == 0)
        with self.attacking(model) as attacked:
            start = self.starts.uniform(x, keys, self.eps)
            adv = self.perturb(attacked, x, start, lambda logits: self.attack_loss(logits, y))
        yield self.descent_loss(as_logits(model(adv)), y).mean()
