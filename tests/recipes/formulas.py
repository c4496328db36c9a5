"""The paper's formulas in plain torch, one value per example, and the formulas that a recipe's settings select."""

from collections.abc import Callable
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, log_softmax

Label = Callable[[Tensor, Tensor], Tensor]
"""(logits, y) -> (N,)."""
Pair = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(attacked logits, clean logits, y) -> (N,)."""


def ce(logits: Tensor, y: Tensor) -> Tensor:
    return cross_entropy(logits, y, reduction="none")


def std(logits: Tensor, y: Tensor) -> Tensor:
    """Unbiased deviation of the wrong probabilities."""
    wrong = torch.arange(logits.shape[1]) != y[:, None]
    return logits.softmax(1)[wrong].view(len(y), -1).std(1)


def sce(gamma: float) -> Label:
    return lambda logits, y: (gamma * std(logits, y)).exp() * ce(logits, y)


def kl(logits: Tensor, clean_logits: Tensor, _: Tensor) -> Tensor:
    return kl_div(log_softmax(logits, 1), log_softmax(clean_logits, 1), reduction="none", log_target=True).sum(1)


def skl(gamma: float, std_at: Literal["adv", "clean"] = "adv") -> Pair:
    def formula(logits: Tensor, clean_logits: Tensor, y: Tensor) -> Tensor:
        return (gamma * std(logits if std_at == "adv" else clean_logits, y)).exp() * kl(logits, clean_logits, y)

    return formula


def attacked_std(logits: Tensor, _: Tensor, y: Tensor) -> Tensor:
    return std(logits, y)


def trades(clean: Label = ce, attacked: Pair = kl, beta: float = 6.0) -> Pair:
    return lambda logits, clean_logits, y: clean(clean_logits, y) + beta * attacked(logits, clean_logits, y)


LABEL_LOSSES: list[tuple[dict[str, Any], dict[str, Label]]] = [
    ({"gamma": 5.0}, {"attack": sce(5.0), "descent": sce(5.0)}),
    ({"gamma": 5.0, "gamma_in": "attack"}, {"attack": sce(5.0)}),
    ({"gamma": 5.0, "gamma_in": "descent"}, {"descent": sce(5.0)}),
    ({"loss": "std"}, {"attack": std, "descent": std}),
]
"""Settings of Fast, Free and Madry, and the losses that then replace CE in the reference implementation."""

STEPS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"step_size": 0.01}, {"step_size": 0.01}),
    ({"eps": 0.02, "steps": 3, "step_size": 0.03}, {"eps": 0.02, "steps": 3, "step_size": 0.03}),
    ({"seed": 1}, {"seed": 1}),
]
"""Settings of the attacks of Madry and TRADES, and their names in the reference implementations."""
