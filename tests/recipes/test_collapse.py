"""What counts as a collapse, and under which attacks."""

import pytest

from ctrobust.attacks import PGD
from ctrobust.recipes import collapse_attack, collapsed, one_step_attack, validation_attack


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


@pytest.mark.parametrize("eps", [4 / 255, 8 / 255])
def test_the_attacks_are_fast_ats_step_and_pgd_5_and_pgd_10_with_steps_of_a_quarter_of_the_radius(eps: float) -> None:
    assert one_step_attack(eps) == PGD(eps=eps, steps=1, step_size=1.25 * eps)
    assert one_step_attack(eps, 0.3).step_size == 0.3
    for attack, steps in ((collapse_attack(eps), 5), (validation_attack(eps), 10)):
        assert (attack.eps, attack.steps, attack.step_size, attack.loss) == (eps, steps, eps / 4, "ce")
