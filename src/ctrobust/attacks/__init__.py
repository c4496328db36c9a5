"""Attacks: frozen values that are called on (model, x, y); `parse` reads them from text and `str` writes them."""

from collections.abc import Callable, Mapping

from ctrobust.attacks.apgd import APGD
from ctrobust.attacks.attack_losses import ATTACK_LOSSES
from ctrobust.attacks.autoattack import AutoAttack
from ctrobust.attacks.base import Attack
from ctrobust.attacks.cw import CW
from ctrobust.attacks.fab import FAB
from ctrobust.attacks.fgsm import FGSM
from ctrobust.attacks.fused import fuse
from ctrobust.attacks.mifgsm import MIFGSM
from ctrobust.attacks.noise import Noise
from ctrobust.attacks.pgd import PGD
from ctrobust.attacks.result import AttackResult
from ctrobust.attacks.square import Square
from ctrobust.attacks.strong import Strong
from ctrobust.specs.attack_fields import (
    NORMS,
    APGDFields,
    AttackFields,
    AutoAttackFields,
    CWFields,
    FABFields,
    FGSMFields,
    MIFGSMFields,
    NoiseFields,
    Norm,
    PGDFields,
    SquareFields,
    StrongFields,
)
from ctrobust.specs.attack_names import ATTACK_NAMES
from ctrobust.specs.attack_text import Value, parse_attack

ATTACK_CLASSES: dict[type[AttackFields], Callable[..., Attack]] = {
    FGSMFields: FGSM,
    PGDFields: PGD,
    MIFGSMFields: MIFGSM,
    CWFields: CW,
    APGDFields: APGD,
    FABFields: FAB,
    SquareFields: Square,
    NoiseFields: Noise,
    AutoAttackFields: AutoAttack,
    StrongFields: Strong,
}
"""Maps the fields of each attack to its class."""

ATTACKS: dict[str, tuple[Callable[..., Attack], Mapping[str, Value]]] = {
    name: (ATTACK_CLASSES[fields], preset) for name, (fields, preset) in ATTACK_NAMES.items()
}
"""Maps each name to a class and the fields that the name sets."""

__all__ = [
    "APGD",
    "ATTACKS",
    "ATTACK_LOSSES",
    "CW",
    "FAB",
    "FGSM",
    "MIFGSM",
    "NORMS",
    "PGD",
    "Attack",
    "AttackResult",
    "AutoAttack",
    "Noise",
    "Norm",
    "Square",
    "Strong",
    "fuse",
    "parse",
    "revision",
]


def parse(text: str) -> Attack:
    """Parse an attack from text, `name:key=value,...`; numbers may be fractions.

    Example:
        >>> parse("s-pgd:eps=8/255,steps=20") == PGD(eps=8 / 255, steps=20, loss="std")
        True
        >>> print(parse("pgd:eps=0.3,loss=skl(gamma=1.0),steps=20,seed=3"))
        pgd:eps=0.3,loss=skl(gamma=1),seed=3
    """
    attack: Attack = parse_attack(text, ATTACKS)
    return attack


def revision(attack: Attack) -> int:
    """Sum the revisions of the attack's class and of the classes whose stages it runs, as AutoAttack does."""
    return sum(kind.revision for kind in {type(attack), *(type(stage.attack) for stage in attack.stages())})
