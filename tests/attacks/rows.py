"""The tables of attacks and attack losses: a new one gets a row here, and with it the tests of every one."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ctrobust import losses
from ctrobust.attacks.attack_losses import Loss


class AttackRow(NamedTuple):
    """How the tests run an attack.

    Attributes:
        fields: fields that make it fast on a network of 6 pixels; the test sets eps.
        on_digits: fields with which it breaks some, but not all, images of digits.
    """

    fields: str
    on_digits: str


ATTACK_ROWS = {
    "fgsm": AttackRow("", "eps=0.05"),
    "pgd": AttackRow("steps=3,restarts=2", "eps=0.05,steps=4,restarts=2"),
    "mifgsm": AttackRow("steps=3", "eps=0.05,steps=4"),
    "cw": AttackRow("steps=3,lr=0.1", "eps=0.1,steps=2,lr=0.1"),
    "cw-tanh": AttackRow("steps=3,lr=0.1", "eps=0.1,steps=2,lr=0.1"),
    "cw-pgd": AttackRow("steps=3", "eps=0.05,steps=4"),
    "cw-l2": AttackRow("steps=10,searches=4,lr=0.1", "eps=0.5,steps=4,searches=3,lr=0.1"),
    "apgd": AttackRow("steps=5", "eps=0.05,steps=8"),
    "apgd-ce": AttackRow("steps=5", "eps=0.05,steps=8"),
    "apgd-t": AttackRow("steps=5", "eps=0.05,steps=3"),
    "apgd-dlr": AttackRow("steps=5", "eps=0.05,steps=8,restarts=2"),
    "s-apgd": AttackRow("steps=5", "eps=0.05,steps=8"),
    "fab": AttackRow("steps=5", "eps=0.05,steps=2,restarts=2"),
    "fab-t": AttackRow("steps=5", "eps=0.05,steps=2,restarts=2"),
    "square": AttackRow("queries=20", "eps=0.1,queries=70"),
    "noise": AttackRow("draws=50", "eps=0.2,draws=20"),
    "autoattack": AttackRow("queries=20", "eps=0.15,queries=70"),
    "strong": AttackRow("queries=20", "eps=0.15,queries=70"),
    "s-fgsm": AttackRow("", "eps=0.05"),
    "s-pgd": AttackRow("steps=3", "eps=0.05,steps=4"),
    "pgd-sce": AttackRow("steps=3", "eps=0.05,steps=4"),
}


Plain = Callable[[Tensor, Tensor], Tensor]
"""(logits, y) -> (N,)."""


class LossRow(NamedTuple):
    """What the tests know of an attack loss.

    Attributes:
        plain: the loss as printed, whose gradient direction the attack loss has; None if it depends on clean logits.
        classes: the fewest classes for which it is defined.
        toward: (logits, y, target) -> (N,), its form toward a target class; None if it has none.
        toward_classes: the fewest classes for that form.
        targeted: whether minus the loss leads to the class y.
        underflows: whether the gradient of the printed loss vanishes on over-confident models, where ours does not.
        slope: a lower bound of the gradient's largest entry, for 5 classes and any logits.
    """

    plain: Plain | None
    classes: int = 2
    toward: Loss | None = None
    toward_classes: int = 2
    targeted: bool = False
    underflows: bool = False
    slope: float = 0.0


def lead(z: Tensor, y: Tensor, target: Tensor) -> Tensor:
    """The target's logit minus the right class's."""
    return (z.gather(1, target[:, None]) - z.gather(1, y[:, None]))[:, 0]


def target_odds(z: Tensor, _: Tensor, target: Tensor) -> Tensor:
    """The log-odds of the target class, of the same order as -CE of the target."""
    rest = [row[torch.arange(len(row)) != t].logsumexp(0) for row, t in zip(z, target, strict=True)]
    return z.gather(1, target[:, None])[:, 0] - torch.stack(rest)


def probability_margin(z: Tensor, y: Tensor) -> Tensor:
    p = z.softmax(1)
    return p.scatter(1, y[:, None], -1.0).max(1).values - p.gather(1, y[:, None])[:, 0]


def probability_lead_odds(z: Tensor, y: Tensor, target: Tensor) -> Tensor:
    """2 artanh(p_target - p_y)."""
    return 2 * lead(z.softmax(1), y, target).atanh()


LOSS_ROWS = {
    "ce": LossRow(
        lambda z, y: cross_entropy(z, y, reduction="none"),
        toward=target_odds,
        targeted=True,
        underflows=True,
        slope=0.1,
    ),
    "sce(gamma=0)": LossRow(lambda z, y: losses.sce(z, y, gamma=0.0)),
    "sce(gamma=0.5)": LossRow(lambda z, y: losses.sce(z, y, gamma=0.5), 3),
    "sce": LossRow(losses.sce, 3, underflows=True),
    "sce(gamma=5)": LossRow(lambda z, y: losses.sce(z, y, gamma=5.0), 3, underflows=True),
    "sce(gamma=50)": LossRow(lambda z, y: losses.sce(z, y, gamma=50.0), 3),
    "kl": LossRow(None),
    "skl": LossRow(None, 3),
    "skl(gamma=1,std_at=clean)": LossRow(None, 3),
    "std": LossRow(losses.std, 3, underflows=True),
    "dlr": LossRow(losses.dlr, 3, toward=losses.dlr_targeted, toward_classes=4),
    "margin": LossRow(losses.margin, toward=lead, targeted=True, slope=0.4),
    "pmargin": LossRow(probability_margin, toward=probability_lead_odds, targeted=True, underflows=True, slope=0.39),
}
