"""Madry's adversarial training: descend the loss of images that several signed steps found."""

from collections.abc import Iterator, Mapping
from typing import Literal

from torch import Tensor

from ctrobust.attacks.field_checks import check_count
from ctrobust.attacks.model_checks import check_batch
from ctrobust.recipes.interface import AttackableModel, Network
from ctrobust.recipes.recipe_losses import GammaIn, check_attack, label_losses
from ctrobust.recipes.signed_steps import Starts, take_signed_steps, under_attack


class Madry:
    """Madry-AT, with gamma > 0 Madry-AT with CTR: several signed steps from a uniform start, then one descent.

    min L_SCE(f(x*), y | gamma), x* from signed steps up L_SCE(f(x'), y | gamma)

    All passes are in the model's own mode, which is training mode: the attack's, too, move BatchNorm's statistics.
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
        inner: AttackableModel | None = None,
    ) -> None:
        """Madry-AT.

        Args:
            eps: radius of the ball.
            steps: of the attack.
            step_size: of each; None is eps / 4, 2/255 at 8/255.
            gamma: weight of the deviation in SCE; 0 is the baseline with CE, to the bit.
            gamma_in: "both", or only the "attack" or the "descent" has gamma.
            loss: "sce", or "std" for STD alone in attack and descent.
            seed: of the starts.
            inner: the network as the attack calls it, under DDP the module inside; None is the model itself.
        """
        check_attack(eps, step_size)
        check_count(steps, "steps")
        self.eps, self.steps = eps, steps
        self.step_size = eps / 4 if step_size is None else step_size
        self.attack, self.descent = label_losses(loss, gamma, gamma_in)
        self.starts, self.inner = Starts(seed), inner

    def __call__(self, model: Network, x: Tensor, y: Tensor, keys: Tensor | None = None) -> Iterator[Tensor]:
        """Yield the loss of the attacked batch once."""
        keys = check_batch(x, y, keys)
        inner: AttackableModel = model if self.inner is None else self.inner
        with under_attack(inner):
            adv = take_signed_steps(
                inner, x, self.starts.uniform(x, keys, self.eps), lambda logits: self.attack(logits, y),
                eps=self.eps, step_size=self.step_size, steps=self.steps,
            )  # fmt: skip
        yield self.descent(model(adv), y).mean()

    def end_epoch(self) -> None:
        """Nothing."""

    def state_dict(self) -> dict[str, Tensor]:
        """How many batches were begun, which keys the starts."""
        return self.starts.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from there."""
        self.starts.load_state_dict(state)
