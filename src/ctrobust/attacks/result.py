"""The result of an attack."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class AttackResult:
    """The result of an attack on a batch.

    Attributes:
        x_adv: (N, ...) the first image found that fooled the model, else the final or the best iterate.
        success: (N,) bool, whether `x_adv` is misclassified.
        forwards: (N,) int64, number of forward passes of each example.
        backwards: (N,) int64, number of backward passes of each example.
        left_out: the attacks of an ensemble that are undefined for the model's number of classes.
    """

    x_adv: Tensor
    success: Tensor
    forwards: Tensor
    backwards: Tensor
    left_out: tuple[str, ...] = ()
