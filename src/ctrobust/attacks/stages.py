"""Stages: an attack runs them in turn, each on the examples that are still active."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torch import Tensor, nn

from ctrobust.attacks import fused
from ctrobust.attacks.attack_state import AttackState
from ctrobust.attacks.model_checks import check_batch, check_model, untouched, warn_of_repeated_draws, warn_of_training
from ctrobust.attacks.result import AttackResult

if TYPE_CHECKING:
    from ctrobust.attacks.base import Attack

FUSE_FROM_STEPS = 10
"""Attacks of at least this many steps use a fused copy of the model, which takes about one step's time to make."""


@dataclass(frozen=True)
class Stage:
    """One restart of an attack, towards one target class or none.

    Attributes:
        attack: the attack that runs the stage.
        restart: number of the restart, from 0.
        target: rank of the target class among the wrong classes by the clean logits, from 1; 0 is no target.
        optional: whether the stage is left out, rather than an error raised, where its loss is undefined.
    """

    attack: "Attack"
    restart: int = 0
    target: int = 0
    optional: bool = False

    def __str__(self) -> str:
        restart = f" restart {self.restart + 1}" if self.restart else ""
        return f"{self.attack}{f' target {self.target}' if self.target else ''}{restart}"

    def run(self, state: AttackState) -> None:
        """Attack the active examples; the original model confirms each success on a fused copy."""
        if self.optional and state.classes < self.attack.least_classes():
            return  # `left_out` reports it
        if self.target and self.target >= state.classes:
            return  # the model has fewer wrong classes
        self.attack.run_stage(state, self)
        state.confirm()


def ensemble_stages(attacks: "Iterable[Attack]") -> tuple[Stage, ...]:
    """List the stages of several attacks, each left out where it is undefined."""
    return tuple(replace(stage, optional=True) for attack in attacks for stage in attack.stages())


def run_attack(
    attack: "Attack",
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    keys: Tensor | None = None,
    clean_logits: Tensor | None = None,
    *,
    verify_last: bool = True,
    fuse: bool = True,
) -> AttackResult:
    """Run every stage of an attack; the model's modes and the global generators are restored.

    If `verify_last` is false, the final iterate is not classified; examples not fooled before it count as robust. If
    `fuse` is false, no fused copy of the model is used.
    """
    check_model(model)
    if keys is None and attack.uses_keys():
        warn_of_repeated_draws(model)
    keys = check_batch(x, y, keys)
    warn_of_training(model)
    with untouched(model, x):
        if fuse and attack.steps >= FUSE_FROM_STEPS:
            model = fused.fuse(model, x)
        state = AttackState(model, x, y, keys, clean_logits, targeted=attack.targeted, verify_last=verify_last)
        stages = attack.stages()
        for stage in stages:
            if state.fooled.all():
                break
            stage.run(state)
        return state.result(left_out(attack, state.classes) if any(stage.optional for stage in stages) else ())


def left_out(attack: "Attack", classes: int) -> tuple[str, ...]:
    """List the attacks of an ensemble that are undefined for this number of classes, with the number they need."""
    missing = {str(stage.attack): stage.attack.least_classes() for stage in attack.stages() if stage.optional}
    return tuple(f"{name} needs {least} classes" for name, least in missing.items() if classes < least)
