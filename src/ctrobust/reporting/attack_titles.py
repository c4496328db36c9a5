"""Attacks by the names that people use, read from their canonical texts; no torch."""

from dataclasses import dataclass
from functools import cached_property, lru_cache

ATTACK_TITLES: dict[str, str] = {
    "none": "no attack",
    "fgsm": "FGSM",
    "pgd": "PGD",
    "mifgsm": "MI-FGSM",
    "apgd": "APGD",
    "cw": "CW",
    "fab": "FAB",
    "square": "Square",
    "noise": "Noise",
    "autoattack": "AutoAttack",
    "s-autoattack": "S-AutoAttack",
}
"""First word of a canonical text -> what people call the attack."""

NORM_TITLES: dict[str, str] = {"linf": "L∞", "l2": "L2"}


@dataclass(frozen=True)
class AttackTitle:
    """One attack, taken apart.

    Attributes:
        text: the canonical text.
        kind: its first word.
        fields: the fields that differ from their defaults, without eps and norm.
        eps: the radius as it is written; empty without an attack.
        norm: "linf" or "l2".
    """

    text: str
    kind: str
    fields: tuple[tuple[str, str], ...]
    eps: str
    norm: str

    @cached_property
    def title(self) -> str:
        """The short name without radius.

        Example:
            >>> read_attack("pgd:eps=8/255,loss=std").title, read_attack("pgd:eps=0.3,steps=40,norm=l2").title
            ('S-PGD', 'PGD (steps=40)')
            >>> read_attack("pgd:eps=0.3,loss=sce(gamma=5),seed=1").title
            'PGD-SCE (gamma=5, seed=1)'
        """
        name, fields = ATTACK_TITLES.get(self.kind, self.kind), dict(self.fields)
        if fields.get("loss") == "std":
            del fields["loss"]
            name = f"S-{name}"
        elif "loss" in fields:
            loss, _, rest = fields.pop("loss").partition("(")
            name = f"{name}-{loss.upper()}"
            fields = dict(piece.partition("=")[::2] for piece in _pieces(rest.removesuffix(")"))) | fields
        shown = ", ".join(f"{key}={value}" for key, value in fields.items())
        return f"{name} ({shown})" if shown else name

    @property
    def title_and_fields(self) -> tuple[str, str]:
        """The title in two lines: the name, and the fields that differ from their defaults.

        Example:
            >>> read_attack("pgd:eps=0.3,steps=40").title_and_fields
            ('PGD', 'steps=40')
        """
        name, _, fields = self.title.partition(" (")
        return name, fields.removesuffix(")")

    @property
    def radius(self) -> float:
        """The radius as a number; 0 without an attack."""
        above, _, below = self.eps.partition("/")
        try:
            return float(above or 0) / float(below or 1)
        except (ValueError, ZeroDivisionError):
            return 0.0

    @property
    def ball(self) -> str:
        """The norm and the radius, such as "L∞ 8/255"."""
        return f"{NORM_TITLES.get(self.norm, self.norm)} {self.eps}" if self.eps else ""


@lru_cache(maxsize=4096)
def read_attack(text: str) -> AttackTitle:
    """Take a canonical text apart; a text of another form is a kind without fields.

    Example:
        >>> found = read_attack("pgd:eps=8/255,loss=sce(gamma=5,rho=1)")
        >>> found.kind, found.fields, found.eps, found.norm, found.ball
        ('pgd', (('loss', 'sce(gamma=5,rho=1)'),), '8/255', 'linf', 'L∞ 8/255')
    """
    kind, _, rest = text.partition(":")
    fields = dict(piece.partition("=")[::2] for piece in _pieces(rest))
    eps, norm = fields.pop("eps", ""), fields.pop("norm", "linf")
    return AttackTitle(text, kind, tuple(fields.items()), eps, norm)


def _pieces(text: str) -> list[str]:
    """The fields of a text; commas inside parentheses do not separate."""
    pieces, depth = [""], 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            pieces.append("")
        else:
            pieces[-1] += character
    return [piece for piece in pieces if piece]
