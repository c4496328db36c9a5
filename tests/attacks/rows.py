"""The table of attacks: a new attack gets a row here, and with it the tests of every attack."""

from typing import NamedTuple


class AttackRow(NamedTuple):
    """How the tests run an attack.

    Attributes:
        fields: fields that make it fast on a network of 6 pixels; the test sets eps.
        on_digits: fields with which it breaks some, but not all, images of digits.
    """

    fields: str
    on_digits: str


ATTACK_ROWS = {
    "fgsm": AttackRow("", "eps=0.05"),
    "pgd": AttackRow("steps=3,restarts=2", "eps=0.05,steps=4,restarts=2"),
    "mifgsm": AttackRow("steps=3", "eps=0.05,steps=4"),
    "cw": AttackRow("steps=3,lr=0.1", "eps=0.1,steps=2,lr=0.1"),
    "cw-tanh": AttackRow("steps=3,lr=0.1", "eps=0.1,steps=2,lr=0.1"),
    "cw-pgd": AttackRow("steps=3", "eps=0.05,steps=4"),
    "cw-l2": AttackRow("steps=10,searches=4,lr=0.1", "eps=0.5,steps=4,searches=3,lr=0.1"),
    "apgd": AttackRow("steps=5", "eps=0.05,steps=8"),
    "apgd-ce": AttackRow("steps=5", "eps=0.05,steps=8"),
    "apgd-t": AttackRow("steps=5", "eps=0.05,steps=3"),
    "apgd-dlr": AttackRow("steps=5", "eps=0.05,steps=8,restarts=2"),
    "s-apgd": AttackRow("steps=5", "eps=0.05,steps=8"),
    "fab": AttackRow("steps=5", "eps=0.05,steps=2,restarts=2"),
    "fab-t": AttackRow("steps=5", "eps=0.05,steps=2,restarts=2"),
    "square": AttackRow("queries=20", "eps=0.1,queries=70"),
    "noise": AttackRow("draws=50", "eps=0.2,draws=20"),
    "autoattack": AttackRow("queries=20", "eps=0.15,queries=70"),
    "s-fgsm": AttackRow("", "eps=0.05"),
    "s-pgd": AttackRow("steps=3", "eps=0.05,steps=4"),
    "pgd-sce": AttackRow("steps=3", "eps=0.05,steps=4"),
}
