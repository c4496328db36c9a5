"""Kullback-Leibler divergence weighted by the standard deviation loss."""

from typing import Literal

from torch import Tensor

from ctrobust.argument_checks import check_choice, check_number
from ctrobust.losses.inputs import checked_labels
from ctrobust.losses.kl import kl
from ctrobust.losses.std import std


def skl(
    adv_logits: Tensor,
    clean_logits: Tensor,
    y: Tensor,
    gamma: float = 2.0,
    std_at: Literal["adv", "clean"] = "adv",
) -> Tensor:
    """STD loss based Kullback-Leibler divergence of each example.

    L_SKL = exp(gamma L_STD) L_KL(f(x*), f(x))

    Nothing is detached. gamma=0 is `kl`, bit for bit. The paper's equation prints L_STD of the clean output, and its
    proof differentiates L_STD of the attacked output: the default follows the proof, `std_at="clean"` the equation.
    With "clean" L_STD is a constant in the attack, whose gradient then has the same sign as that of `kl`.

    Args:
        adv_logits: (N, C), C >= 3 (2 with gamma=0).
        clean_logits: (N, C).
        y: (N,) integer labels.
        gamma: Weight of the deviation, >= 0.
        std_at: The output whose deviation is taken, "adv" or "clean".

    Returns:
        (N,).

    Example:
        >>> import torch
        >>> p, q = torch.tensor([[0.5, 0.3, 0.15, 0.05]]), torch.tensor([[0.4, 0.1, 0.2, 0.3]])
        >>> skl(p.log(), q.log(), torch.tensor([0]), gamma=2.0)
        tensor([0.5092])
    """
    check_number(gamma, "gamma")
    check_choice(std_at, "std_at", ("adv", "clean"))
    divergence = kl(adv_logits, clean_logits)
    checked_labels(y, adv_logits)
    if gamma == 0:
        return divergence
    return (gamma * std(adv_logits if std_at == "adv" else clean_logits, y)).exp() * divergence
