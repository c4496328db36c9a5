"""Values that attacks have in common, refused when impossible."""

from numbers import Real

from ctrobust.attacks.attack_losses import Loss, canonical, directed
from ctrobust.errors import InputError
from ctrobust.losses.inputs import check_choice, check_number

__all__ = ["check_choice", "check_count", "check_eps", "check_loss", "check_number", "check_share"]


def check_eps(eps: float, norm: str, name: str = "eps") -> None:
    """A radius or step for images in [0, 1]; an l2 ball may be wider than a pixel's range."""
    if norm == "linf" and isinstance(eps, Real) and not 0.0 <= eps <= 1.0:
        raise InputError(
            f"{name} is for images in [0, 1] and so between 0 and 1, got {eps}; for 8 grey levels write 8/255"
        )
    check_number(eps, name)


def check_share(value: float, name: str) -> None:
    """A number from 0 to 1."""
    check_number(value, name, high=1.0)


def check_count(value: int, name: str) -> None:
    """A count of at least one."""
    if type(value) is not int or value < 1:
        raise InputError(f"{name} is a whole number of at least 1, got {value}")


def check_loss(loss: str | Loss, *, targeted: bool = False, toward_target: bool = False) -> str | Loss:
    """A loss in its canonical spelling, or a callable as it is.

    `towards` asks that it can lead from the right class to another; `targeted` that it can from any: minus DLR also
    grows where the leading class leaves the third behind.
    """
    if not (isinstance(loss, str) or callable(loss)):
        raise InputError(f"a loss is a name or a function of (logits, y, clean_logits), got {loss!r}")
    if targeted and (loss == "dlr" or not directed(loss)):
        raise InputError(f"an attack towards given classes ascends ce or margin, got {loss}")
    if toward_target and not directed(loss):
        raise InputError(f"an attack towards wrong classes ascends ce, margin or dlr, got {loss}")
    return canonical(loss) if isinstance(loss, str) else loss
