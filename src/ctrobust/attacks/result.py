"""What an attack gives."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class AttackResult:
    """One attack on a batch.

    Attributes:
        x_adv: (N, ...) the images found: the first that fooled the model, else the last or the best that was tried.
        success: (N,) bool, whether `x_adv` is misclassified.
        forwards: (N,) int64, forward passes spent on each example.
        backwards: (N,) int64, backward passes.
        left_out: the parts that are undefined for a model of so few classes.
    """

    x_adv: Tensor
    success: Tensor
    forwards: Tensor
    backwards: Tensor
    left_out: tuple[str, ...] = ()
