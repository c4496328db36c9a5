"""The mask-guided divergence loss."""

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from ctrobust.argument_checks import check_choice, check_number
from ctrobust.errors import InputError
from ctrobust.losses.classes import FLAT, below_top, wrong_classes, wrong_deviations
from ctrobust.losses.cross_entropy import cross_entropy
from ctrobust.losses.inputs import checked_labels, checked_logits

Diversity = Literal["cosine", "pearson"]


def mdl(
    logits_k: Tensor,
    y: Tensor,
    rho: float = 1.0,
    eta: float = 100.0,
    diversity: Diversity = "cosine",
    base: Callable[[Tensor, Tensor], Tensor] = cross_entropy,
    threshold: float | Tensor | None = None,
) -> Tensor:
    """Mask-guided divergence loss of each example under K sub-networks.

    L_MDL = sum_i L_CE^i / K + rho xi(P|eta) sum_{i<j} D(P^i, P^j) / (K (K-1) / 2)

    The mask xi is 1 where `mask_score` <= T and carries no gradient. The batch's loss is the mean of the result over
    all N examples, masked or not. rho=0 is multi-sample dropout, bit for bit.

    Args:
        logits_k: (K, N, C) outputs of the sub-networks; K >= 2 and C >= 3 unless rho=0.
        y: (N,) integer labels.
        rho: Weight of the orthogonal term, >= 0.
        eta: Percentage of the batch that the mask keeps, in [0, 100]: T is the eta-percentile of the scores.
        diversity: D, "cosine" (MDL) or "pearson" (MDL-PCC).
        base: Loss of one sub-network, (N, C) and (N,) to (N,), in place of cross-entropy.
        threshold: T itself, for a batch that several devices share: `mask_threshold` of the scores of the whole batch.
            eta is then not used.

    Returns:
        (N,).

    Example:
        >>> p, q = [0.5, 0.3, 0.15, 0.05], [0.4, 0.1, 0.2, 0.3]
        >>> mdl(torch.tensor([[p], [q]]).log(), torch.tensor([0]))
        tensor([1.3958])
    """
    check_number(rho, "rho")
    check_number(eta, "eta", high=100)
    check_choice(diversity, "diversity", ("cosine", "pearson"))
    logits_k, y = _check_outputs(logits_k, y)
    loss = _loss_of_each(base, logits_k, y).mean(0)
    if rho == 0:
        return loss
    orthogonal = wrong_similarity(logits_k, y, diversity)
    if threshold is not None or eta < 100:
        score = mask_score(logits_k, y)
        orthogonal = orthogonal * (score <= (mask_threshold(score, eta) if threshold is None else threshold))
    return loss + rho * orthogonal


def wrong_similarity(logits_k: Tensor, y: Tensor, diversity: Diversity = "cosine") -> Tensor:
    """Similarity of the sub-networks' wrong probabilities, the mean over pairs of sub-networks for each example.

    D_1 = cosine of the wrong probabilities; D_2 = (Pe + 1) / 2, Pe their Pearson correlation coefficient

    Both are computed from the softmax of the wrong logits, which gives the same values and does not underflow. Pe of a
    constant vector, one that varies by less than `FLAT` (1e-12) of its largest entry, is 0, and so is its gradient.

    Args:
        logits_k: (K, N, C), K >= 2 and C >= 3.
        y: (N,) integer labels.
        diversity: "cosine" (D_1) or "pearson" (D_2).

    Returns:
        (N,), in [0, 1] up to rounding.

    Example:
        >>> p, q = [0.5, 0.3, 0.15, 0.05], [0.4, 0.1, 0.2, 0.3]
        >>> wrong_similarity(torch.tensor([[p], [q]]).log(), torch.tensor([0]), "pearson")
        tensor([0.0033])
    """
    check_choice(diversity, "diversity", ("cosine", "pearson"))
    logits_k, y = _check_outputs(logits_k, y, subnetworks=2, classes=3)
    wrong = wrong_classes(logits_k, y)
    if diversity == "cosine":
        return _mean_cosine(wrong.softmax(-1))
    below, _ = below_top(wrong)
    return (_mean_cosine(wrong_deviations(below)) + 1) / 2


@torch.no_grad()
def mask_score(logits_k: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy of the mean output of the sub-networks for each example, without gradient.

    -log p_y, p the mean of the K probability vectors, computed as log K - logsumexp_k(log p_y^k), which stays finite
    where p_y underflows

    Args:
        logits_k: (K, N, C), K >= 1 and C >= 2.
        y: (N,) integer labels.

    Returns:
        (N,).

    Example:
        >>> p, q = [0.5, 0.3, 0.15, 0.05], [0.4, 0.1, 0.2, 0.3]
        >>> mask_score(torch.tensor([[p], [q]]).log(), torch.tensor([0]))
        tensor([0.7985])
    """
    logits_k, y = _check_outputs(logits_k, y)
    return math.log(logits_k.shape[0]) - (-_loss_of_each(cross_entropy, logits_k, y)).logsumexp(0)


def mask_threshold(score: Tensor, eta: float) -> Tensor:
    """The threshold T of the mask, the linearly interpolated eta-percentile of a batch's scores.

    It equals torch.quantile, but where the rank is a whole number T is exactly that score, so that the mask keeps it.

    Args:
        score: (N,), N >= 1.
        eta: Percentage in [0, 100].

    Returns:
        A scalar tensor.

    Example:
        >>> mask_threshold(torch.tensor([4.0, 1.0, 3.0, 2.0]), 50)
        tensor(2.5000)
    """
    check_number(eta, "eta", high=100)
    if score.dim() != 1 or score.numel() == 0:
        raise InputError(f"score must have shape (N,), N >= 1; got {tuple(score.shape)}")
    below, weight = divmod(eta * (score.numel() - 1) / 100, 1)
    ordered = score.sort().values
    return torch.lerp(ordered[math.floor(below)], ordered[math.ceil(below + weight)], weight)


def _check_outputs(logits_k: Tensor, y: Tensor, subnetworks: int = 1, classes: int = 2) -> tuple[Tensor, Tensor]:
    """Check the outputs of K sub-networks and their labels."""
    logits_k = checked_logits(logits_k, axes="KNC", classes=classes, name="logits_k")
    if logits_k.shape[0] < subnetworks:
        raise InputError(
            f"this loss needs at least {subnetworks} sub-networks; got {logits_k.shape[0]}, in logits_k of shape "
            f"{tuple(logits_k.shape)}"
        )
    return logits_k, checked_labels(y, logits_k)


def _loss_of_each(base: Callable[[Tensor, Tensor], Tensor], logits_k: Tensor, y: Tensor) -> Tensor:
    """Apply a loss to the outputs of K sub-networks in one call: (K, N)."""
    K, N, _ = logits_k.shape
    values = base(logits_k.flatten(0, 1), y.repeat(K))
    if values.shape != (K * N,):
        raise InputError(f"base must return one value per example, shape ({K * N},); got {tuple(values.shape)}")
    return values.view(K, N)


def _mean_cosine(vectors: Tensor) -> Tensor:
    """Mean cosine over the pairs of K vectors, (K, N, C-1) to (N,); a zero vector has cosine 0 with all others."""
    length: Tensor = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    unit = vectors / length.masked_fill(length <= FLAT, math.inf)
    # The sum over ordered pairs, from |sum u|^2 = sum |u|^2 + sum_{i != j} u_i . u_j.
    pairs = (unit.sum(0).square() - unit.square().sum(0)).sum(-1)
    K = vectors.shape[0]
    return pairs / (K * (K - 1))
