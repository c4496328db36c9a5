"""Checks of the fields that attacks have in common."""

from numbers import Real

from ctrobust.attacks.attack_losses import Loss, canonical_loss, has_target_form, with_target_form
from ctrobust.errors import InputError
from ctrobust.losses.inputs import check_choice, check_number

__all__ = ["check_choice", "check_count", "check_eps", "check_loss", "check_number", "check_share"]


def check_eps(eps: float, norm: str, name: str = "eps") -> None:
    """Raise unless this is a radius or step size for images in [0, 1]; in l2 it may be larger than 1."""
    if norm == "linf" and isinstance(eps, Real) and not 0.0 <= eps <= 1.0:
        raise InputError(
            f"{name} is for images in [0, 1] and so between 0 and 1, got {eps}; for 8 grey levels write 8/255"
        )
    check_number(eps, name)


def check_share(value: float, name: str) -> None:
    check_number(value, name, high=1.0)


def check_count(value: int, name: str) -> None:
    if type(value) is not int or value < 1:
        raise InputError(f"{name} is a whole number of at least 1, got {value}")


def check_loss(loss: str | Loss, *, targeted: bool = False, toward_target: bool = False) -> str | Loss:
    """Return a loss in its canonical text, or a callable unchanged; raise if the attack cannot use it.

    With `toward_target` the loss must have a form that leads from the right class to a given one, with `targeted` from
    any class to a given one: DLR has none, since minus DLR also grows with the gap between first and third logit.
    """
    if not (isinstance(loss, str) or callable(loss)):
        raise InputError(f"a loss is a name or a function of (logits, y, clean_logits), got {loss!r}")
    if targeted and (loss == "dlr" or not has_target_form(loss)):
        allowed = ", ".join(name for name in with_target_form() if name != "dlr")
        raise InputError(f"an attack with targeted=true uses a loss of {allowed}; got {loss}")
    if toward_target and not has_target_form(loss):
        raise InputError(f"an attack with targets uses a loss of {', '.join(with_target_form())}; got {loss}")
    return canonical_loss(loss) if isinstance(loss, str) else loss
