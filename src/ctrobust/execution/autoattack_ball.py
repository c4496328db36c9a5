"""The attacks that share a ball with AutoAttack: the result that RobustBench lists."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ctrobust.attacks import AutoAttack, parse
from ctrobust.errors import InputError
from ctrobust.execution.stored_evaluation import EvaluationRow
from ctrobust.outcomes import Evaluation
from ctrobust.specs.attack_text import format_number
from ctrobust.store import VerdictRecord


@dataclass(frozen=True, eq=False)
class AutoAttackBall:
    """Standard AutoAttack and the other attacks with its norm and radius.

    Attributes:
        attack: the text of AutoAttack.
        norm: "linf" or "l2".
        eps: the radius as text, such as "8/255".
        evaluations: the text of each attack -> its outcomes.
        masking: the level of the masking verdict at this radius; None if there is none.
    """

    attack: str
    norm: str
    eps: str
    evaluations: Mapping[str, Evaluation]
    masking: str | None


def standard_autoattack(texts: Sequence[str]) -> str:
    """The text of the one standard AutoAttack among some attacks; raises if there is none, or several."""
    attacks = {text: parse(text) for text in texts}
    found = [text for text, one in attacks.items() if isinstance(one, AutoAttack) and one.version == "standard"]
    if len(found) != 1:
        remedy = "name a single radius" if found else "add --attack autoattack:eps=8/255"
        raise InputError(f"RobustBench lists standard AutoAttack at one radius, got {len(found)} of them; {remedy}")
    return found[0]


def autoattack_result(rows: Sequence[EvaluationRow], verdicts: Sequence[VerdictRecord]) -> AutoAttackBall:
    """The attacks of some rows that share AutoAttack's ball, with the verdict there."""
    attacks = {row.attack: parse(row.attack) for row in rows if row.attack != "none"}
    text = standard_autoattack(list(attacks))
    ours = attacks[text]
    inside = {
        row.attack: row.evaluation
        for row in rows
        if row.attack in attacks and (attacks[row.attack].eps, attacks[row.attack].norm) == (ours.eps, ours.norm)
    }
    levels = [one.verdict.level for one in verdicts if (one.spec.eps, one.spec.norm) == (ours.eps, ours.norm)]
    return AutoAttackBall(text, ours.norm, format_number(ours.eps), inside, levels[0] if levels else None)
