"""Attack texts made canonical, and the revisions of attacks, without torch."""

from ctrobust.specs.attack_fields import AttackFields
from ctrobust.specs.attack_names import ATTACK_NAMES, stage_fields
from ctrobust.specs.attack_text import format_attack, parse_attack


def parse_attack_fields(text: str) -> AttackFields:
    """Parse the fields of an attack from its text, with the checks and errors of `attacks.parse`."""
    fields: AttackFields = parse_attack(text, ATTACK_NAMES)
    return fields


def canonical_attack(text: str) -> str:
    """The text that `str(attacks.parse(text))` gives; "none" is no attack.

    Example:
        >>> canonical_attack("s-pgd: steps=20, eps=8/255"), canonical_attack("cw:eps=0.1"), canonical_attack("none")
        ('pgd:eps=8/255,loss=std', 'cw:eps=0.1,form=box,steps=10', 'none')
    """
    return "none" if text == "none" else format_attack(parse_attack_fields(text))


def attack_revision(text: str) -> int:
    """The revision that outcomes of an attack must have: the sum over the attack and those whose stages it runs."""
    if text == "none":
        return 0
    attack = parse_attack_fields(text)
    return sum(kind.revision for kind in {type(attack), *stage_fields(attack)})
