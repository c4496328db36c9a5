"""What is asked of an adversarially trained network after each epoch: does it still stand, and how well."""

from ctrobust.attacks import PGD

GAP = 0.2
"""Robust accuracy has collapsed if it is this much lower than in the last good epoch, or than under one step."""


def collapse_attack(eps: float) -> PGD:
    """PGD-5 with steps of eps / 4 (2/255 at 8/255), for the epoch's first training batch.

    Example:
        >>> print(watch_attack(8 / 255))
        pgd:eps=8/255,steps=5,step_size=2/255
    """
    return PGD(eps=eps, steps=5, step_size=eps / 4)


def one_step_attack(eps: float, step_size: float | None = None) -> PGD:
    """Fast-AT's own step, 1.25 eps from a uniform start, for the same batch.

    Who overfits resists just this one, and FGSM from the image itself perhaps no better than PGD-5.

    Example:
        >>> print(one_step_attack(8 / 255))
        pgd:eps=8/255,steps=1,step_size=10/255
    """
    return PGD(eps=eps, steps=1, step_size=min(1.25 * eps if step_size is None else step_size, 1.0))


def validation_attack(eps: float) -> PGD:
    """PGD-10 with the same steps, for held-out images."""
    return PGD(eps=eps, steps=10, step_size=eps / 4)


def collapsed(before: float | None, after: float, one_step: float) -> bool:
    """Whether training has fallen into catastrophic overfitting, as Fast-AT does at times.

    It has if accuracy under PGD-5 fell since the last epoch that had not, or if the network withstands one step but not
    five: it then hides its gradient instead of resisting, also where it fell slowly or had never been robust.

    Example:
        >>> collapsed(0.45, 0.1, one_step=0.2), collapsed(0.45, 0.3, one_step=0.4), collapsed(None, 0.0, one_step=0.5)
        (True, False, True)
    """
    return one_step - after > GAP or (before is not None and before - after > GAP)
