"""Attacks: frozen values called on (model, x, y). `parse` reads them from text, `str` writes them."""

from collections.abc import Mapping

from ctrobust.attacks.fgsm import FGSM
from ctrobust.attacks.grammar import Value, parse_attack
from ctrobust.attacks.objectives import OBJECTIVES
from ctrobust.attacks.pgd import PGD
from ctrobust.attacks.result import Attack, AttackResult

ATTACKS: dict[str, tuple[type[FGSM] | type[PGD], Mapping[str, Value]]] = {
    "fgsm": (FGSM, {}),
    "pgd": (PGD, {}),
    "s-fgsm": (FGSM, {"loss": "std"}),
    "s-pgd": (PGD, {"loss": "std"}),
    "pgd-sce": (PGD, {"loss": "sce(gamma=5)"}),
}
"""Name -> class and the fields that the name sets."""

LOSSES: tuple[str, ...] = tuple(OBJECTIVES)
"""Names of the losses that attacks ascend."""

__all__ = ["ATTACKS", "FGSM", "LOSSES", "PGD", "Attack", "AttackResult", "parse"]


def parse(text: str) -> Attack:
    """An attack from its text, `name:key=value,...`; numbers may be fractions.

    Example:
        >>> parse("s-pgd:eps=8/255,steps=20") == PGD(eps=8 / 255, steps=20, loss="std")
        True
        >>> parse(str(PGD(eps=0.3, loss="skl(gamma=1)", seed=3)))
        PGD(eps=0.3, steps=20, step_size=None, loss='skl(gamma=1)', random_start=True, success='any', seed=3)
    """
    attack: Attack = parse_attack(text, ATTACKS)
    return attack
