"""The losses that attacks increase as text, such as `skl(gamma=1)`: names, parameters and defaults. No torch."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ctrobust.errors import InputError, closest
from ctrobust.specs.attack_text import Value, format_call, parse_call

LossField = str | Callable[..., Any]
"""A loss as a field of an attack: its text, or in Python a function of (logits, y, clean_logits)."""


@dataclass(frozen=True)
class LossText:
    """What the text of one loss can say.

    Attributes:
        parameters: its parameters, in the order of canonical texts, with their defaults.
        toward_target: whether the loss has a form that leads from the right class to a given one.
        targeted: whether it also leads from any class to a given one: minus DLR also grows with the gap between the
            first and the third logit.
    """

    parameters: Mapping[str, Value] = field(default_factory=dict)
    toward_target: bool = False
    targeted: bool = False


LOSS_TEXTS: dict[str, LossText] = {
    "ce": LossText(toward_target=True, targeted=True),
    "sce": LossText({"gamma": 2.0}),
    "kl": LossText(),
    "skl": LossText({"gamma": 2.0, "std_at": "adv"}),
    "std": LossText(),
    "dlr": LossText(toward_target=True),
    "margin": LossText(toward_target=True, targeted=True),
    "pmargin": LossText(toward_target=True, targeted=True),
}
"""Name -> parameters and forms; `attacks.ATTACK_LOSSES` has the functions."""


def parse_loss(text: str) -> tuple[str, dict[str, Value]]:
    """Parse the text of a loss; return its name and all parameters.

    Example:
        >>> parse_loss("skl(gamma=5)")
        ('skl', {'gamma': 5.0, 'std_at': 'adv'})
    """
    name, given = parse_call(text)
    if name not in LOSS_TEXTS:
        raise InputError(f"unknown loss {name!r}; {closest(name, list(LOSS_TEXTS))}")
    defaults = LOSS_TEXTS[name].parameters
    for key, value in given.items():
        if key not in defaults:
            allowed = f"takes {', '.join(defaults)}" if defaults else "takes no parameters"
            raise InputError(f"loss {name!r} {allowed}; got {key!r}")
        if isinstance(defaults[key], str) is not isinstance(value, str):
            raise InputError(f"loss {name!r}: {key}={value!r} is not of the kind of its default {defaults[key]!r}")
    parameters = {**defaults, **given}
    if isinstance(gamma := parameters.get("gamma", 0.0), float) and not 0 <= gamma < math.inf:
        raise InputError(f"loss {name!r}: gamma is finite and at least 0, got {gamma}")
    if parameters.get("std_at", "adv") not in ("adv", "clean"):
        raise InputError(f"loss {name!r}: std_at is adv or clean, got {parameters['std_at']!r}")
    return name, parameters


def canonical_loss(text: str) -> str:
    """Return the canonical text of a loss: parameters in order, without those at their default.

    Example:
        >>> canonical_loss("skl( gamma = 1.0, std_at=adv)"), canonical_loss("sce(gamma=2)")
        ('skl(gamma=1)', 'sce')
    """
    name, parameters = parse_loss(text)
    defaults = LOSS_TEXTS[name].parameters
    return format_call(name, {key: value for key, value in parameters.items() if value != defaults[key]})


def check_loss(loss: LossField, *, targeted: bool = False, toward_target: bool = False) -> LossField:
    """Return a loss in its canonical text, or a callable unchanged; raise if the attack cannot use it.

    With `toward_target` the loss must have a form that leads from the right class to a given one, with `targeted` from
    any class to a given one.
    """
    if not (isinstance(loss, str) or callable(loss)):
        raise InputError(f"a loss is a name or a function of (logits, y, clean_logits), got {loss!r}")
    form = LOSS_TEXTS[parse_loss(loss)[0]] if isinstance(loss, str) else LossText()
    if targeted and not form.targeted:
        allowed = ", ".join(name for name, one in LOSS_TEXTS.items() if one.targeted)
        raise InputError(f"an attack with targeted=true uses a loss of {allowed}; got {loss}")
    if toward_target and not form.toward_target:
        allowed = ", ".join(name for name, one in LOSS_TEXTS.items() if one.toward_target)
        raise InputError(f"an attack with targets uses a loss of {allowed}; got {loss}")
    return canonical_loss(loss) if isinstance(loss, str) else loss
