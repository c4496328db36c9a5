"""Attacks: frozen values that are called on (model, x, y); `parse` reads them from text and `str` writes them."""

from collections.abc import Callable, Mapping

from ctrobust.attacks.apgd import APGD
from ctrobust.attacks.attack_losses import ATTACK_LOSSES
from ctrobust.attacks.attack_text import Value, parse_attack
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

ATTACKS: dict[str, tuple[Callable[..., Attack], Mapping[str, Value]]] = {
    "fgsm": (FGSM, {}),
    "pgd": (PGD, {}),
    "mifgsm": (MIFGSM, {}),
    "cw": (CW, {}),
    "cw-tanh": (CW, {"form": "tanh"}),
    "cw-pgd": (CW, {"form": "pgd"}),
    "cw-l2": (CW, {"norm": "l2"}),
    "apgd": (APGD, {}),
    "apgd-ce": (APGD, {"loss": "ce"}),
    "apgd-t": (APGD, {"loss": "dlr", "targets": 9}),
    "apgd-dlr": (APGD, {"loss": "dlr"}),
    "s-apgd": (APGD, {"loss": "std"}),
    "fab": (FAB, {}),
    "fab-t": (FAB, {"targets": 9}),
    "square": (Square, {}),
    "noise": (Noise, {}),
    "autoattack": (AutoAttack, {}),
    "s-fgsm": (FGSM, {"loss": "std"}),
    "s-pgd": (PGD, {"loss": "std"}),
    "pgd-sce": (PGD, {"loss": "sce(gamma=5)"}),
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
    "PGD",
    "Attack",
    "AttackResult",
    "AutoAttack",
    "Noise",
    "Square",
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
