"""The losses that attacks increase, each in a form whose gradient points the same way and does not vanish.

Attacks use only the direction of the gradient, so any increasing function of a loss can replace the loss. For an
over-confident model the gradients of CE, SCE, STD and the probability margin underflow in float32 and a plain attack
stalls; the gradients of these forms do not: CE's is the log-odds d = log sum_{j != y} exp z_j - z_y (CE = softplus(d));
SCE's is log SCE; STD's is log STD; that of the probability margin L = max_{j != y} p_j - p_y is log (1 + L) / (1 - L).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from ctrobust import losses
from ctrobust.errors import InputError
from ctrobust.losses.classes import label_class, wrong_classes
from ctrobust.losses.inputs import checked_logits
from ctrobust.losses.probability_margin import probability_margin_log_odds
from ctrobust.specs.attack_loss_text import parse_loss

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""A loss in Python: (logits, y, clean_logits) -> (N,)."""


CALLED = "a loss is called with (logits, y, clean_logits) and gives one value for each example, (N,)"


def log_odds(logits: Tensor, y: Tensor) -> Tensor:
    """Return the log-odds of a wrong class, log sum_{j != y} exp z_j - z_y, (N,)."""
    logits = checked_logits(logits)
    return wrong_classes(logits, y).logsumexp(-1) - label_class(logits, y)


def log_softplus(odds: Tensor) -> Tensor:
    """Return log CE from the log-odds."""
    return torch.where(odds < -17, odds, softplus(odds.clamp(min=-17)).log())


def log_sce(logits: Tensor, y: Tensor, gamma: float) -> Tensor:
    """Return log SCE = gamma STD + log CE, (N,); log softplus(d) equals d to the last bit where d < -17."""
    log_ce = log_softplus(log_odds(logits, y))
    return gamma * losses.std(logits, y) + log_ce if gamma else log_ce


@dataclass(frozen=True)
class AttackLoss:
    """A loss that an attack increases.

    Attributes:
        untargeted: (logits, y, clean_logits) -> (N,).
        needs_clean: whether the loss depends on the clean logits.
        flat_at_clean: whether the gradient is zero at the clean image, so that an attack must start near it.
        toward_target: (logits, y, target) -> (N,), the form that leads to one target class; None if there is none.
        log_form: maps values of this form to the logarithms of the loss that it replaces and of that loss's derivative
            by it; None if it is the loss itself.
    """

    untargeted: Loss
    needs_clean: bool
    flat_at_clean: bool
    toward_target: Loss | None = None
    log_form: Callable[[Tensor], tuple[Tensor, Tensor]] | None = None

    def value(self, logits: Tensor, y: Tensor, clean: Tensor, target: Tensor | None) -> Tensor:
        """Return the loss (N,), in the form toward the target class if one is given."""
        if target is None:
            return self.untargeted(logits, y, clean)
        assert self.toward_target is not None
        return self.toward_target(logits, y, target)


@dataclass(frozen=True)
class _Entry:
    """One named loss; its parameters are in `specs.attack_loss_text`.

    Attributes:
        make: makes the loss from its parameters.
        divergence: whether the loss compares with the clean logits.
        classes: the fewest classes for which the loss is defined.
        toward_target: (logits, y, target) -> (N,) and the fewest classes that it needs; None if there is no such form.
        log_form: as `AttackLoss.log_form`.
    """

    make: Callable[..., Loss]
    divergence: bool = False
    classes: int = 2
    toward_target: tuple[Loss, int] | None = None
    log_form: Callable[[Tensor], tuple[Tensor, Tensor]] | None = None


def _log_form_of_odds(odds: Tensor) -> tuple[Tensor, Tensor]:
    """Return log CE and log dCE/dd for log-odds d: CE = softplus(d) has the derivative sigmoid(d)."""
    return log_softplus(odds), logsigmoid(odds)


def _log_form_of_log(log: Tensor) -> tuple[Tensor, Tensor]:
    """Return log L and log dL/du for u = log L: L = exp(u) is its own derivative."""
    return log, log


def _log_form_of_probability_margin(odds: Tensor) -> tuple[Tensor, Tensor]:
    """Return log P and log dP/du for u the log-odds of P = (1 + L) / 2: P = sigmoid(u) has the derivative P (1 - P)."""
    return logsigmoid(odds), logsigmoid(odds) + logsigmoid(-odds)


def _margin_toward_target(logits: Tensor, y: Tensor, target: Tensor) -> Tensor:
    """Return the target's logit less the right one's, (N,)."""
    logits = checked_logits(logits)
    return label_class(logits, target) - label_class(logits, y)


def _ce() -> Loss:
    return lambda z, y, _: log_odds(z, y)


def _sce(gamma: float) -> Loss:
    return lambda z, y, _: log_sce(z, y, gamma)


def _kl() -> Loss:
    return lambda z, _, clean: losses.kl(z, clean)


def _skl(gamma: float, std_at: Literal["adv", "clean"]) -> Loss:
    return lambda z, y, clean: losses.skl(z, clean, y, gamma=gamma, std_at=std_at)


def _std() -> Loss:
    return lambda z, y, _: losses.log_std(z, y)


def _dlr() -> Loss:
    return lambda z, y, _: losses.dlr(z, y)


def _margin() -> Loss:
    return lambda z, y, _: losses.margin(z, y)


def _pmargin() -> Loss:
    return lambda z, y, _: probability_margin_log_odds(z, y)


ATTACK_LOSSES: dict[str, _Entry] = {
    "ce": _Entry(_ce, toward_target=(lambda z, _, t: -log_odds(z, t), 2), log_form=_log_form_of_odds),
    "sce": _Entry(_sce, classes=3, log_form=_log_form_of_log),
    "kl": _Entry(_kl, divergence=True),
    "skl": _Entry(_skl, divergence=True, classes=3),
    "std": _Entry(_std, classes=3, log_form=_log_form_of_log),
    "dlr": _Entry(_dlr, classes=3, toward_target=(losses.dlr_targeted, 4)),
    "margin": _Entry(_margin, toward_target=(_margin_toward_target, 2)),
    "pmargin": _Entry(
        _pmargin, toward_target=(probability_margin_log_odds, 2), log_form=_log_form_of_probability_margin
    ),
}


def resolve_loss(loss: str | Loss) -> AttackLoss:
    """Return the attack loss for a text or a callable.

    Example:
        >>> resolve_loss("std").untargeted(torch.tensor([[3.0, 1.0, 0.0]]), torch.tensor([0]), torch.empty(0)).shape
        torch.Size([1])
    """
    if not isinstance(loss, str):
        return AttackLoss(_wrap_callable(loss), needs_clean=True, flat_at_clean=False)
    name, parameters = parse_loss(loss)
    entry = ATTACK_LOSSES[name]
    toward_target = None if entry.toward_target is None else entry.toward_target[0]
    return AttackLoss(entry.make(**parameters), entry.divergence, entry.divergence, toward_target, entry.log_form)


def _wrap_callable(loss: Loss) -> Loss:
    """Wrap a user's loss so that its errors explain how it is called."""

    def call(logits: Tensor, y: Tensor, clean: Tensor) -> Tensor:
        try:
            values = loss(logits, y, clean)
        except Exception as error:
            raise InputError(f"{CALLED}; this one failed with {type(error).__name__}: {error}") from error
        if not isinstance(values, Tensor):
            raise InputError(f"{CALLED}; this one gave {values!r}")
        return values

    return call


def least_classes(loss: str | Loss, *, toward_target: bool = False) -> int:
    """Return the fewest classes for which the loss, or its form toward a target, is defined.

    Example:
        >>> least_classes("dlr"), least_classes("dlr", toward_target=True), least_classes("ce")
        (3, 4, 2)
    """
    if not isinstance(loss, str):
        return 2
    entry = ATTACK_LOSSES[parse_loss(loss)[0]]
    return entry.toward_target[1] if toward_target and entry.toward_target is not None else entry.classes
