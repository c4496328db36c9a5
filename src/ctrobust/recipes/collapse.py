"""Detection of catastrophic overfitting after each epoch of adversarial training, and the attacks used for it."""

import math

from ctrobust.attacks import PGD


def collapse_attack(eps: float) -> PGD:
    """PGD-5 with steps of eps / 4, which is 2/255 at 8/255.

    Example:
        >>> print(collapse_attack(8 / 255))
        pgd:eps=8/255,steps=5,step_size=2/255
    """
    return PGD(eps=eps, steps=5, step_size=eps / 4)


def one_step_attack(eps: float, step_size: float | None = None) -> PGD:
    """Fast-AT's own attack: one step from a uniform start, of 1.25 eps by default.

    A network that overfits to Fast-AT is robust to this attack alone; FGSM from the clean image may break it as PGD-5
    does.

    Example:
        >>> print(one_step_attack(8 / 255))
        pgd:eps=8/255,steps=1,step_size=10/255
    """
    return PGD(eps=eps, steps=1, step_size=min(1.25 * eps if step_size is None else step_size, 1.0))


def validation_attack(eps: float) -> PGD:
    """PGD-10 with steps of eps / 4, for held-out images."""
    return PGD(eps=eps, steps=10, step_size=eps / 4)


def collapsed(
    best_pgd: float | None, *, clean: float, recipe_step: float, pgd: float, chance: float, images: int = 256
) -> bool:
    """Whether an epoch ended in catastrophic overfitting, by accuracies on the same training images.

    It did if the accuracy under PGD-5 is below half of the best so far, or below 60% of the accuracy under the recipe's
    own step, where that best or that step is above chance by more than two standard errors of guessing: a network that
    still guesses has nothing to lose. It also did if PGD-5 is below half of the own step's accuracy while that step
    does not lower the clean one.

    Args:
        best_pgd: the best accuracy under PGD-5 among earlier epochs that had not collapsed; None if there is none.
        clean: accuracy without an attack.
        recipe_step: accuracy under the one step that the recipe trains with.
        pgd: accuracy under PGD-5.
        chance: accuracy of guessing, 1 / C.
        images: number of images of which these accuracies are.

    Example:
        >>> collapsed(0.4, clean=0.5, recipe_step=0.3, pgd=0.25, chance=0.1)
        False
        >>> collapsed(0.4, clean=0.5, recipe_step=0.2, pgd=0.1, chance=0.1)
        True
        >>> collapsed(0.117, clean=0.15, recipe_step=0.09, pgd=0.031, chance=0.1)
        False
    """
    above_chance = chance + 2 * math.sqrt(chance * (1 - chance) / images)
    dropped = best_pgd is not None and best_pgd > above_chance and pgd < 0.5 * best_pgd
    only_recipe_step = recipe_step > above_chance and pgd < 0.6 * recipe_step
    recipe_step_harmless = recipe_step >= clean and pgd < 0.5 * recipe_step
    return dropped or only_recipe_step or recipe_step_harmless
