"""What an attack is: a sequence of parts, each tried on those who still stand after the ones before."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor, nn

from ctrobust.attacks.attack_state import AttackState
from ctrobust.attacks.fused import fuse
from ctrobust.attacks.model_checks import check_batch, check_model, untouched, warn_of_training
from ctrobust.attacks.result import AttackResult

if TYPE_CHECKING:
    from ctrobust.attacks.base import Attack

FUSE_FROM_STEPS = 10
"""Attacks of so many steps work on a prepared copy of the model, which takes about a step's time to make."""


@dataclass(frozen=True)
class Stage:
    """One restart of an attack, towards one target class or none.

    Attributes:
        attack: whose.
        restart: from 0.
        target: rank of the wrong class in the clean output, from 1; 0 is none.
        optional: left out, rather than refused, where it is undefined.
    """

    attack: "Attack"
    restart: int = 0
    target: int = 0
    optional: bool = False

    def __str__(self) -> str:
        restart = f" restart {self.restart + 1}" if self.restart else ""
        return f"{self.attack}{f' target {self.target}' if self.target else ''}{restart}"

    def run(self, state: AttackState) -> None:
        """Attack those who stand, and let the user's own model confirm who fell."""
        if self.optional and state.classes < self.attack.least_classes():
            return  # `left_out` says so
        if self.target and self.target >= state.classes:
            return  # there are not so many wrong classes
        self.attack.run_stage(state, self)
        state.confirm()


def run_attack(
    attack: "Attack",
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    keys: Tensor | None = None,
    clean_logits: Tensor | None = None,
    *,
    verify_last: bool = True,
) -> AttackResult:
    """Every part in turn, on those who stand; the model's modes and the global generators are left as found.

    Without `judge` the last image is not run through the model, and `success` of who was not seen fooled is False.
    """
    check_model(model)
    check_batch(x, y, keys)
    warn_of_training(model)
    with untouched(model, x):
        if attack.steps >= FUSE_FROM_STEPS:
            model = fuse(model, x)
        state = AttackState(model, x, y, keys, clean_logits, targeted=attack.targeted, verify_last=verify_last)
        stages = attack.stages()
        for stage in stages:
            if state.fooled.all():
                break
            stage.run(state)
        return state.result(left_out(attack, state.classes) if any(stage.optional for stage in stages) else ())


def left_out(attack: "Attack", classes: int) -> tuple[str, ...]:
    """What an ensemble does not try on a model of so few classes, and why."""
    missing = {str(stage.attack): stage.attack.least_classes() for stage in attack.stages() if stage.optional}
    return tuple(f"{name} needs {least} classes" for name, least in missing.items() if classes < least)
