"""What counts as a collapse, and under which attacks."""

import pytest

from ctrobust.recipes import collapsed, validation_attack, watch_attack


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
    assert collapsed(before, after) is expected


def test_the_attacks_are_pgd_5_and_pgd_10_with_the_papers_steps() -> None:
    for attack, steps in ((watch_attack(8 / 255), 5), (validation_attack(8 / 255), 10)):
        assert (attack.eps, attack.steps, attack.step_size, attack.loss) == (8 / 255, steps, 2 / 255, "ce")
