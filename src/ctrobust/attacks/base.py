"""The base class of the attacks: the methods that all of them share."""

import dataclasses
from typing import ClassVar, Self

from torch import Tensor, nn

from ctrobust.attacks.attack_losses import Loss, least_classes
from ctrobust.attacks.attack_state import AttackState
from ctrobust.attacks.other_libraries import check_constructor
from ctrobust.attacks.result import AttackResult
from ctrobust.attacks.stages import Stage, run_attack
from ctrobust.specs.attack_fields import Norm
from ctrobust.specs.attack_text import format_attack


class Attack:
    """A frozen value, called on a model that takes images in [0, 1] and returns logits; `str` is its canonical text.

    A subclass is a frozen dataclass that inherits its fields with their checks from `specs.attack_fields` and adds
    `run_stage`. Its name in lower case is the attack's name in texts. Attributes with a value here may be left out by a
    subclass.

    Attributes:
        revision: raised by one when the attack's outcomes change, so that stored outcomes are computed again.
        step_cost: the cost of a step in forward passes, by which the remaining time is estimated.
        eps, norm: the ball that adversarial examples stay in.
        steps: about how many gradients or queries a stage needs.
        loss: the loss that the attack increases; it decides how many classes the attack needs.
        restarts, targets: how many restarts are made, and towards how many wrong classes each.
        targeted: whether y are the classes to reach.
    """

    revision: ClassVar[int] = 0
    step_cost: ClassVar[float] = 3.0

    eps: float
    norm: Norm
    steps: int
    loss: str | Loss = "margin"
    restarts: int = 1
    targets: int = 0
    targeted: bool = False

    def __new__(cls, *arguments: object, **keywords: object) -> Self:
        """Explain calls as other libraries have them; a copy is made without arguments."""
        if dataclasses.is_dataclass(cls):
            fields = [field.name for field in dataclasses.fields(cls)]
            check_constructor(cls.__name__, fields, arguments, keywords)
        return super().__new__(cls)

    def __str__(self) -> str:
        return format_attack(self)

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, keys: Tensor | None = None) -> Tensor:
        """Attack images x (N, ...) with labels y (N,) and return the attacked images.

        Random draws are keyed by `keys` (N,) int64, by default 0..N-1, so that a second call repeats them: in training,
        pass keys that change with each step.
        """
        return run_attack(self, model, x, y, keys, verify_last=len(self.stages()) > 1).x_adv

    def run(
        self, model: nn.Module, x: Tensor, y: Tensor, keys: Tensor | None = None, clean_logits: Tensor | None = None
    ) -> AttackResult:
        """Attack as `__call__` does and return the outcomes too; known `clean_logits` (N, C) save a forward pass."""
        return run_attack(self, model, x, y, keys, clean_logits)

    def stages(self) -> tuple[Stage, ...]:
        """List what the attack runs in turn: all target classes of a restart, then the next restart."""
        ranks = range(1, self.targets + 1) if self.targets else (0,)
        return tuple(Stage(self, restart, rank) for restart in range(self.restarts) for rank in ranks)

    def run_stage(self, state: AttackState, stage: Stage) -> None:
        """Attack the active examples of the batch, from one start and towards one target class or none."""
        raise NotImplementedError

    def uses_keys(self) -> bool:
        """Return whether the attack makes random draws, which the keys determine."""
        return True

    def least_classes(self) -> int:
        """Return the number of classes that a model must have for the attack to be defined."""
        return least_classes(self.loss, toward_target=self.targets > 0)
