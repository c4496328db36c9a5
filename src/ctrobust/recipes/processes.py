"""The other processes that train the same network, as a recipe uses them."""

from typing import Protocol

from torch import Tensor


class Processes(Protocol):
    """All processes of a run; each calls the same methods in the same order."""

    @property
    def first(self) -> bool:
        """Whether this process has rank 0, which writes the run's files."""
        ...

    @property
    def index(self) -> int:
        """The rank of this process, from 0; it holds the positions index, index + count, ... of each batch."""
        ...

    @property
    def count(self) -> int:
        """The world size."""
        ...

    def gather(self, values: Tensor) -> Tensor:
        """Concatenate the (n, ...) values of every process; n may differ between processes."""
        ...

    def sum(self, values: Tensor) -> Tensor:
        """Add the values of all processes."""
        ...


class SingleProcess:
    """A run of one process, whose own values are those of all."""

    first = True
    index = 0
    count = 1

    def gather(self, values: Tensor) -> Tensor:
        return values

    def sum(self, values: Tensor) -> Tensor:
        return values
