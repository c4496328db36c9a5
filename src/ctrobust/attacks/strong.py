"""S-AutoAttack: AutoAttack with APGD on the paper's own losses and the margin added."""

from dataclasses import dataclass

from ctrobust.attacks.apgd import APGD
from ctrobust.attacks.base import Attack
from ctrobust.attacks.fab import FAB
from ctrobust.attacks.square import Square
from ctrobust.attacks.stages import Stage, ensemble_stages
from ctrobust.specs.attack_fields import StrongFields

LOSSES = ("ce", "sce(gamma=5)", "std", "margin")
"""The losses that APGD increases in turn, before the targeted attacks."""


@dataclass(frozen=True)
class Strong(StrongFields, Attack):
    """S-AutoAttack: APGD on CE, SCE, STD and the margin, APGD-T, FAB-T and Square, in turn.

    Each attack starts from the clean image and runs only on the examples that are still robust. A network trained with
    SCE or SKL is so attacked with its own losses too, and everything that AutoAttack runs is among the stages. Attacks
    that are undefined for a model of few classes are left out, and the result lists them.

    Attributes:
        eps: radius of the ball.
        norm: "linf" or "l2".
        queries: number of queries of Square.
        seed: seed of all random draws.

    Example:
        >>> attack = Strong(eps=8 / 255)
        >>> print(attack, len(attack.stages()))
        strong:eps=8/255 23
    """

    steps = 100

    def attacks(self) -> tuple[Attack, ...]:
        """Return the attacks of the ensemble, in their order."""
        eps, norm, seed = self.eps, self.norm, self.seed
        return (
            *(APGD(eps, norm=norm, loss=loss, seed=seed) for loss in LOSSES),
            APGD(eps, norm=norm, loss="dlr", targets=9, seed=seed),
            FAB(eps, norm=norm, targets=9, seed=seed),
            Square(eps, norm=norm, queries=self.queries, seed=seed),
        )

    def stages(self) -> tuple[Stage, ...]:
        """List every target class of every attack."""
        return ensemble_stages(self.attacks())
