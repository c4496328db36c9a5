"""What is asked of an adversarially trained network after each epoch: does it still stand, and how well."""

from ctrobust.attacks import PGD

FALL = 0.2
"""A robust accuracy that falls by more than this from one epoch to the next has collapsed."""


def watch_attack(eps: float) -> PGD:
    """PGD-5 with steps of eps / 4 (2/255 at 8/255), for the epoch's first training batch.

    Example:
        >>> print(watch_attack(8 / 255))
        pgd:eps=8/255,steps=5,step_size=2/255
    """
    return PGD(eps=eps, steps=5, step_size=eps / 4)


def validation_attack(eps: float) -> PGD:
    """PGD-10 with the same steps, for held-out images."""
    return PGD(eps=eps, steps=10, step_size=eps / 4)


def collapsed(before: float | None, after: float) -> bool:
    """Whether training has fallen into catastrophic overfitting, as Fast-AT does at times.

    Example:
        >>> collapsed(0.45, 0.1), collapsed(0.45, 0.3), collapsed(None, 0.0)
        (True, False, False)
    """
    return before is not None and before - after > FALL
