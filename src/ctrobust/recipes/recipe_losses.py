"""The losses that an adversarial recipe's attack ascends and its descent minimizes, and the checks of its settings."""

from collections.abc import Callable
from functools import partial
from typing import Literal

from torch import Tensor

from ctrobust import losses
from ctrobust.argument_checks import check_choice, check_eps, check_number
from ctrobust.attacks.model_checks import warn_of_probabilities
from ctrobust.errors import InputError

GammaIn = Literal["both", "attack", "descent"]
"""Where gamma is used; elsewhere gamma is 0."""

LARGEST_GAMMA = 100.0
"""An upper bound far above the paper's values, which are 0 to 5."""

RecipeLoss = Callable[[Tensor, Tensor], Tensor]
"""(N, C) logits and (N,) labels in, (N,) out."""


def gammas(gamma: float, gamma_in: GammaIn) -> tuple[float, float]:
    """Gamma of the attack and of the descent.

    Example:
        >>> gammas(2.0, "both"), gammas(2.0, "attack"), gammas(2.0, "descent")
        ((2.0, 2.0), (2.0, 0.0), (0.0, 2.0))
    """
    check_number(gamma, "gamma")
    if gamma > LARGEST_GAMMA:
        raise InputError(f"gamma is at most {LARGEST_GAMMA:g}, beyond which exp(gamma STD) may overflow; got {gamma:g}")
    check_choice(gamma_in, "gamma_in", ("both", "attack", "descent"))
    return (0.0 if gamma_in == "descent" else gamma), (0.0 if gamma_in == "attack" else gamma)


def warn_of_softmax(logits: Tensor) -> None:
    """Warn if the model ends with a softmax: every loss would take its probabilities for logits."""
    warn_of_probabilities(logits, "What is trained on them learns less, and its robustness is not real")


def check_attack(eps: float, step_size: float | None) -> None:
    """Raise unless the radius and the step size, where one is given, fit images in [0, 1]."""
    check_eps(eps, "linf")
    if step_size is not None:
        check_eps(step_size, "linf", "step_size")


def label_losses(loss: Literal["sce", "std"], gamma: float, gamma_in: GammaIn) -> tuple[RecipeLoss, RecipeLoss]:
    """The attack's loss and the descent's loss, one object if both have the same gamma.

    "sce" is SCE(gamma), which is CE for gamma = 0. "std" is STD alone, for the paper's question why the STD loss is not
    used directly: its minimum, all probabilities equal, needs no feature of any class.
    """
    check_choice(loss, "loss", ("sce", "std"))
    if loss == "std":
        return losses.std, losses.std
    attack_gamma, descent_gamma = gammas(gamma, gamma_in)
    descent_loss = partial(losses.sce, gamma=descent_gamma)
    return (descent_loss if attack_gamma == descent_gamma else partial(losses.sce, gamma=attack_gamma)), descent_loss
