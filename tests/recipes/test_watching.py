"""What counts as a collapse, and under which attacks."""

import pytest

from ctrobust.recipes import collapsed, one_step_attack, validation_attack, watch_attack


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (0.5, 0.29, True),
        (0.5, 0.31, False),
        (0.5, 0.9, False),
        (None, 0.0, False),
        (0.21, 0.0, True),
        (0.19, 0.0, False),
    ],
)
def test_a_fall_of_more_than_a_fifth_is_a_collapse(before: float | None, after: float, expected: bool) -> None:
    assert collapsed(before, after, one_step=after) is expected


@pytest.mark.parametrize("before", [None, 0.0, 0.31, 0.9])
def test_so_is_to_withstand_one_step_but_not_five(before: float | None) -> None:
    assert collapsed(before, 0.3, one_step=0.51)
    assert collapsed(before, 0.3, one_step=0.49) is (before == 0.9)
    assert str(one_step_attack(8 / 255)) == "fgsm:eps=8/255"


def test_the_attacks_are_pgd_5_and_pgd_10_with_the_papers_steps() -> None:
    for attack, steps in ((watch_attack(8 / 255), 5), (validation_attack(8 / 255), 10)):
        assert (attack.eps, attack.steps, attack.step_size, attack.loss) == (8 / 255, steps, 2 / 255, "ce")
