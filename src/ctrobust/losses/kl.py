"""Kullback-Leibler divergence between the clean and the attacked output."""

from torch import Tensor
from torch.nn import functional

from ctrobust.errors import InputError
from ctrobust.losses.inputs import checked_logits


def kl(adv_logits: Tensor, clean_logits: Tensor) -> Tensor:
    """Divergence of each example's attacked output from its clean output, in the direction of TRADES.

    L_KL(f(x*), f(x)) = sum_c q_c log(q_c / p_c), q = f(x) clean, p = f(x*) attacked

    It is differentiable in both outputs, and zero up to rounding if they are equal.

    Args:
        adv_logits: (N, C), C >= 2.
        clean_logits: (N, C).

    Returns:
        (N,).

    Example:
        >>> import torch
        >>> p, q = torch.tensor([[0.5, 0.3, 0.15, 0.05]]), torch.tensor([[0.4, 0.1, 0.2, 0.3]])
        >>> kl(p.log(), q.log())
        tensor([0.3959])
    """
    adv_logits = checked_logits(adv_logits, name="adv_logits")
    clean_logits = checked_logits(clean_logits, name="clean_logits")
    if adv_logits.shape != clean_logits.shape:
        raise InputError(
            f"adv_logits and clean_logits must have the same shape; "
            f"got {tuple(adv_logits.shape)} and {tuple(clean_logits.shape)}"
        )
    log_p, log_q = adv_logits.log_softmax(-1), clean_logits.log_softmax(-1)
    return functional.kl_div(log_p, log_q, reduction="none", log_target=True).sum(-1)
