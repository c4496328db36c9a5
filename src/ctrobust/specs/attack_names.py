"""The names of attacks in texts, and the attacks that an attack is composed of. No torch."""

from collections.abc import Mapping

from ctrobust.specs.attack_fields import (
    APGDFields,
    AttackFields,
    AutoAttackFields,
    CWFields,
    FABFields,
    FGSMFields,
    MIFGSMFields,
    NoiseFields,
    PGDFields,
    SquareFields,
    StrongFields,
)
from ctrobust.specs.attack_text import Value

ATTACK_NAMES: dict[str, tuple[type[AttackFields], Mapping[str, Value]]] = {
    "fgsm": (FGSMFields, {}),
    "pgd": (PGDFields, {}),
    "mifgsm": (MIFGSMFields, {}),
    "cw": (CWFields, {}),
    "cw-tanh": (CWFields, {"form": "tanh"}),
    "cw-pgd": (CWFields, {"form": "pgd"}),
    "cw-l2": (CWFields, {"norm": "l2"}),
    "apgd": (APGDFields, {}),
    "apgd-ce": (APGDFields, {"loss": "ce"}),
    "apgd-t": (APGDFields, {"loss": "dlr", "targets": 9}),
    "apgd-dlr": (APGDFields, {"loss": "dlr"}),
    "s-apgd": (APGDFields, {"loss": "std"}),
    "fab": (FABFields, {}),
    "fab-t": (FABFields, {"targets": 9}),
    "square": (SquareFields, {}),
    "noise": (NoiseFields, {}),
    "autoattack": (AutoAttackFields, {}),
    "strong": (StrongFields, {}),
    "s-fgsm": (FGSMFields, {"loss": "std"}),
    "s-pgd": (PGDFields, {"loss": "std"}),
    "pgd-sce": (PGDFields, {"loss": "sce(gamma=5)"}),
}
"""Maps each name to the attack's fields and those that the name sets."""


def stage_fields(attack: AttackFields) -> tuple[type[AttackFields], ...]:
    """The attacks whose stages an attack runs besides its own."""
    match attack:
        case AutoAttackFields(version="rand"):
            return (APGDFields,)
        case AutoAttackFields() | StrongFields():
            return APGDFields, FABFields, SquareFields
        case CWFields(form="pgd"):
            return (PGDFields,)
        case _:
            return ()
