"""What an attack is and what it gives."""

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class AttackResult:
    """One attack on a batch.

    Attributes:
        x_adv: (N, ...) the images found: the first that fooled the model, else the last tried.
        success: (N,) bool, whether `x_adv` is misclassified.
        forwards: (N,) int64, forward passes spent on each example.
        backwards: (N,) int64, backward passes.
    """

    x_adv: Tensor
    success: Tensor
    forwards: Tensor
    backwards: Tensor


class Attack(Protocol):
    """A frozen value, called on a model that takes images in [0, 1] and gives logits."""

    @property
    def eps(self) -> float:
        """The radius of the ball that the attack stays in."""
        ...

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, keys: Tensor | None = None) -> Tensor:
        """Attack the images x (N, ...) with labels y (N,); `keys` (N,) int64 say whose random draws to make."""
        ...

    def run(
        self,
        model: nn.Module,
        x: Tensor,
        y: Tensor,
        keys: Tensor | None = None,
        clean_logits: Tensor | None = None,
    ) -> AttackResult:
        """The same with outcome and counts; `clean_logits`, where known, save a forward pass."""
        ...
