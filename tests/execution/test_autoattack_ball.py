"""The attacks that share AutoAttack's ball."""

import pytest

from ctrobust.errors import InputError
from ctrobust.execution import EvaluationRow, autoattack_result, standard_autoattack
from tests.reporting.test_robustbench_entry import outcomes

AUTOATTACK = "autoattack:eps=8/255"


def test_only_attacks_of_the_same_norm_and_radius_are_joined() -> None:
    texts = ["none", AUTOATTACK, "pgd:eps=8/255", "pgd:eps=4/255", "pgd:eps=8/255,norm=l2"]
    rows = [EvaluationRow(text, outcomes([0, 1, 0, 1]), None, None) for text in texts]
    ball = autoattack_result(rows, [])
    assert list(ball.evaluations) == [AUTOATTACK, "pgd:eps=8/255"]
    assert (ball.attack, ball.norm, ball.eps, ball.masking) == (AUTOATTACK, "linf", "8/255", None)


@pytest.mark.parametrize(
    ("texts", "count"),
    [
        ([], 0),
        (["pgd:eps=8/255", "autoattack:eps=8/255,version=plus"], 0),
        ([AUTOATTACK, "autoattack:eps=4/255"], 2),
    ],
)
def test_one_standard_autoattack_is_needed(texts: list[str], count: int) -> None:
    with pytest.raises(InputError, match=f"at one radius, got {count} of them"):
        standard_autoattack(texts)
