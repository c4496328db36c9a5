"""What an adversarial recipe's attack ascends and its descent descends."""

from collections.abc import Callable
from functools import partial
from typing import Literal

from torch import Tensor

from ctrobust import losses
from ctrobust.errors import InputError

GammaIn = Literal["both", "attack", "descent"]
"""Where gamma acts; the other side then has gamma = 0."""

Objective = Callable[[Tensor, Tensor], Tensor]
"""(N, C) logits and (N,) labels in, (N,) out."""


def gammas(gamma: float, gamma_in: GammaIn) -> tuple[float, float]:
    """Gamma of the attack and of the descent.

    Example:
        >>> gammas(2.0, "both"), gammas(2.0, "attack"), gammas(2.0, "descent")
        ((2.0, 2.0), (2.0, 0.0), (0.0, 2.0))
    """
    if gamma_in not in ("both", "attack", "descent"):
        raise InputError(f"gamma_in must be one of 'both', 'attack', 'descent'; got {gamma_in!r}")
    return (0.0 if gamma_in == "descent" else gamma), (0.0 if gamma_in == "attack" else gamma)


def label_objectives(loss: Literal["sce", "std"], gamma: float, gamma_in: GammaIn) -> tuple[Objective, Objective]:
    """The attack's and the descent's objective, the same one where both sides have the same gamma.

    SCE(gamma), which is CE for gamma = 0; or STD alone, the paper's "why is not the STD loss directly used": its
    minimum, all probabilities equal, needs no feature of any class.
    """
    if loss not in ("sce", "std"):
        raise InputError(f"loss must be one of 'sce', 'std'; got {loss!r}")
    if loss == "std":
        return losses.std, losses.std
    attack, descent = gammas(gamma, gamma_in)
    descended = partial(losses.sce, gamma=descent)
    return (descended if attack == descent else partial(losses.sce, gamma=attack)), descended
