"""Two processes of a distributed run, simulated in one."""

import torch
from torch import Tensor


class Half:
    """One of two processes; each call of the second receives what the first passed to the same call before."""

    count = 2

    def __init__(self, first: "Half | None" = None) -> None:
        self.other, self.index, self.first = first, int(first is not None), first is None
        self.passed: list[Tensor] = []

    def gather(self, values: Tensor) -> Tensor:
        return torch.cat([*self._from_first(values), values])

    def sum(self, values: Tensor) -> Tensor:
        return sum(self._from_first(values), values)

    def _from_first(self, values: Tensor) -> list[Tensor]:
        self.passed.append(values)
        return [] if self.other is None else [self.other.passed[len(self.passed) - 1]]


def halves() -> tuple[Half, Half]:
    """The two processes; every method must be called on the first one first."""
    first = Half()
    return first, Half(first)
