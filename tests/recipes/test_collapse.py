"""Detection of catastrophic overfitting, and the attacks used for it."""

from collections.abc import Sequence

import pytest

from ctrobust.attacks import PGD
from ctrobust.recipes import collapse_attack, collapsed, one_step_attack, validation_attack

Epoch = tuple[float, float, float]
"""Accuracy under PGD-5, under the recipe's own step, and without an attack."""


def flags(epochs: Sequence[Epoch], chance: float = 0.1) -> list[bool]:
    """Whether each epoch counts as collapsed, compared with the best before it that had not."""
    best, found = None, []
    for pgd, recipe_step, clean in epochs:
        found.append(collapsed(best, clean=clean, recipe_step=recipe_step, pgd=pgd, chance=chance))
        if not found[-1]:
            best = pgd if best is None else max(best, pgd)
    return found


def test_a_slow_decline_is_a_collapse_once_half_of_the_best_is_lost() -> None:
    epochs = [(0.40, 0.45, 0.6), (0.25, 0.30, 0.6), (0.10, 0.20, 0.6), (0.0, 0.15, 0.6)]
    assert flags(epochs) == [False, False, True, True]


def test_a_network_robust_only_to_its_own_step_has_collapsed_without_an_earlier_epoch() -> None:
    assert collapsed(None, clean=0.309, recipe_step=0.312, pgd=0.164, chance=0.1)


def test_a_healthy_run_does_not_collapse() -> None:
    epochs = [(0.18, 0.20, 0.25), (0.24, 0.29, 0.38), (0.22, 0.30, 0.41), (0.31, 0.38, 0.52), (0.36, 0.45, 0.63)]
    assert flags(epochs) == [False] * len(epochs)


def test_an_untrained_network_at_chance_has_not_collapsed() -> None:
    assert flags([(0.08, 0.1, 0.11), (0.05, 0.09, 0.1)]) == [False, False]
    # the first epochs of the demo's Fast-AT with CTR, which learns from the fourth on
    assert (
        flags([(0.0, 0.004, 0.203), (0.117, 0.121, 0.133), (0.031, 0.113, 0.172), (0.242, 0.336, 0.539)]) == [False] * 4
    )


@pytest.mark.parametrize(("images", "expected"), [(256, False), (1024, True)])
@pytest.mark.parametrize("by", ["best", "own step"])
def test_what_is_above_chance_depends_on_the_number_of_images(by: str, images: int, expected: bool) -> None:
    # two standard errors of guessing one of ten classes: 0.1375 of 256 images, 0.11875 of 1024
    best, recipe_step = (0.13, 0.05) if by == "best" else (None, 0.13)
    found = collapsed(best, clean=0.2, recipe_step=recipe_step, pgd=0.04, chance=0.1, images=images)
    assert found is expected


def test_collapsed_epochs_do_not_lower_the_best() -> None:
    epochs = [(0.40, 0.45, 0.6), (0.05, 0.50, 0.6), (0.12, 0.15, 0.6), (0.21, 0.25, 0.6)]
    assert flags(epochs) == [False, True, True, False]


@pytest.mark.parametrize(
    ("best", "pgd", "expected"), [(0.5, 0.24, True), (0.5, 0.25, False), (0.5, 0.9, False), (None, 0.01, False)]
)
def test_less_than_half_of_the_best_is_a_collapse(best: float | None, pgd: float, expected: bool) -> None:
    assert collapsed(best, clean=0.95, recipe_step=pgd, pgd=pgd, chance=0.1) is expected


@pytest.mark.parametrize("best", [None, 0.0, 0.31])
@pytest.mark.parametrize(("pgd", "expected"), [(0.29, True), (0.31, False)])
def test_less_than_three_fifths_of_the_own_steps_accuracy_is_a_collapse(
    best: float | None, pgd: float, expected: bool
) -> None:
    assert collapsed(best, clean=0.9, recipe_step=0.5, pgd=pgd, chance=0.1) is expected


@pytest.mark.parametrize(("recipe_step", "expected"), [(0.26, True), (0.25, False), (0.21, False), (0.1, False)])
def test_the_own_step_counts_only_above_chance(recipe_step: float, expected: bool) -> None:
    assert collapsed(None, clean=0.9, recipe_step=recipe_step, pgd=0.05, chance=0.2) is expected


@pytest.mark.parametrize(
    ("clean", "pgd", "expected"), [(0.45, 0.2, True), (0.4, 0.2, True), (0.45, 0.23, False), (0.46, 0.2, False)]
)
def test_an_own_step_that_lowers_no_accuracy_is_a_collapse_also_at_chance(
    clean: float, pgd: float, expected: bool
) -> None:
    assert collapsed(None, clean=clean, recipe_step=0.45, pgd=pgd, chance=0.5) is expected


@pytest.mark.parametrize("eps", [4 / 255, 8 / 255])
def test_the_attacks_are_fast_ats_step_and_pgd_5_and_pgd_10_with_steps_of_a_quarter_of_the_radius(eps: float) -> None:
    assert one_step_attack(eps) == PGD(eps=eps, steps=1, step_size=1.25 * eps)
    assert one_step_attack(eps, 0.3).step_size == 0.3
    for attack, steps in ((collapse_attack(eps), 5), (validation_attack(eps), 10)):
        assert (attack.eps, attack.steps, attack.step_size, attack.loss) == (eps, steps, eps / 4, "ce")
