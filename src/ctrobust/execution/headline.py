"""The headline of an evaluation: the worst case over the attacks with one ball, and the classes that attacks reach."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ctrobust.attacks import parse
from ctrobust.execution.stored_evaluation import EvaluationRow
from ctrobust.outcomes import WorstCase, worst_case
from ctrobust.specs.attack_text import format_number


@dataclass(frozen=True, eq=False)
class BallHeadline:
    """Several attacks within the same ball.

    Attributes:
        ball: the norm and the radius, such as "linf, eps 8/255".
        attacks: the texts of the attacks.
        worst: what is left under all of them.
    """

    ball: str
    attacks: tuple[str, ...]
    worst: WorstCase


def headlines(rows: Sequence[EvaluationRow]) -> list[BallHeadline]:
    """The worst case of each ball that at least two of the attacks have."""
    balls: dict[str, dict[str, EvaluationRow]] = {}
    for row in rows:
        if row.attack != "none":
            attack = parse(row.attack)
            balls.setdefault(f"{attack.norm}, eps {format_number(attack.eps)}", {})[row.attack] = row
    return [
        BallHeadline(ball, tuple(found), worst_case({text: row.evaluation for text, row in found.items()}))
        for ball, found in balls.items()
        if len(found) > 1
    ]


def reached_ranks(row: EvaluationRow) -> dict[str, float]:
    """Clean rank of the class that broken examples reach -> the share of them; "1" is the most probable wrong class.

    Section 2.3 of the paper: attacks prefer wrong classes of high clean probability.
    """
    one = row.evaluation
    ranks = Counter(one.attacked_rank[one.clean_correct & ~one.robust].tolist())
    total = sum(ranks.values())
    return {str(rank): ranks[rank] / total for rank in sorted(ranks)}
