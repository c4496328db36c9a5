"""What a recipe asks of the other processes that train the same network."""

from typing import Protocol

from torch import Tensor


class Processes(Protocol):
    """All processes of a run; each calls the same methods in the same order."""

    @property
    def first(self) -> bool:
        """Whether this process keeps what belongs to the whole run."""
        ...

    @property
    def index(self) -> int:
        """Which process this is, from 0; it holds the positions index, index + count, ... of each batch."""
        ...

    @property
    def count(self) -> int:
        """How many there are."""
        ...

    def gather(self, values: Tensor) -> Tensor:
        """The (n, ...) values of every process as one tensor; n may differ between them."""
        ...

    def sum(self, values: Tensor) -> Tensor:
        """The sum over the processes."""
        ...


class SingleProcess:
    """One process."""

    first = True
    index = 0
    count = 1

    def gather(self, values: Tensor) -> Tensor:
        """Its own values."""
        return values

    def sum(self, values: Tensor) -> Tensor:
        """Its own values."""
        return values
