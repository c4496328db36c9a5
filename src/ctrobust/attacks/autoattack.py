"""AutoAttack of Croce and Hein: the parameter-free ensemble by which robust accuracies are compared."""

from dataclasses import dataclass

from ctrobust.attacks.apgd import APGD
from ctrobust.attacks.base import Attack
from ctrobust.attacks.fab import FAB
from ctrobust.attacks.square import Square
from ctrobust.attacks.stages import Stage, ensemble_stages
from ctrobust.specs.attack_fields import AutoAttackFields


@dataclass(frozen=True)
class AutoAttack(AutoAttackFields, Attack):
    """Several attacks in turn, each from the clean image and only on the examples that are still robust.

    standard: APGD-CE, APGD-T, FAB-T, Square. plus: APGD-CE, APGD-DLR and FAB with 5 restarts, Square, APGD-T, FAB-T.
    rand, for randomized models: APGD-CE and APGD-DLR with gradients averaged over 20 passes. Attacks that are undefined
    for a model of fewer than 4 classes are left out, and the result lists them.

    Attributes:
        eps: radius of the ball.
        norm: "linf" or "l2".
        version: "standard", "plus" or "rand".
        queries: number of queries of Square; the published ensemble has 5000.
        seed: seed of all random draws.

    Example:
        >>> attack = AutoAttack(eps=8 / 255)
        >>> print(attack, len(attack.stages()))
        autoattack:eps=8/255 20
    """

    steps = 100

    def attacks(self) -> tuple[Attack, ...]:
        """Return the attacks of the ensemble, in their order."""
        eps, norm, seed = self.eps, self.norm, self.seed
        apgd_t = APGD(eps, norm=norm, loss="dlr", targets=9, seed=seed)
        fab_t = FAB(eps, norm=norm, targets=9, seed=seed)
        square = Square(eps, norm=norm, queries=self.queries, seed=seed)
        match self.version:
            case "standard":
                return APGD(eps, norm=norm, seed=seed), apgd_t, fab_t, square
            case "plus":
                ce, dlr = (APGD(eps, norm=norm, loss=loss, restarts=5, seed=seed) for loss in ("ce", "dlr"))
                return ce, dlr, FAB(eps, norm=norm, restarts=5, seed=seed), square, apgd_t, fab_t
            case "rand":
                ce, dlr = (APGD(eps, norm=norm, loss=loss, eot=20, seed=seed) for loss in ("ce", "dlr"))
                return ce, dlr

    def stages(self) -> tuple[Stage, ...]:
        """List every restart and target class of every attack."""
        return ensemble_stages(self.attacks())
