"""The seam between a recipe and the training loop."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from torch import Tensor, nn


class AttackableModel(Protocol):
    """What an attack inside a recipe asks of a model."""

    def __call__(self, x: Tensor) -> Tensor:
        """Logits (N, C)."""
        ...

    def parameters(self) -> Iterator[nn.Parameter]:
        """What is trained; the attack asks for no gradient of it."""
        ...

    def modules(self) -> Iterator[nn.Module]:
        """All parts; the attack may need them in eval mode."""
        ...


class Network(Protocol):
    """What a recipe asks of a model."""

    def __call__(self, x: Tensor) -> Tensor:
        """Logits (N, C)."""
        ...

    def sample_logits(self, x: Tensor, k: int) -> Tensor:
        """Logits of k sub-networks (k, N, C)."""
        ...

    def parameters(self) -> Iterator[nn.Parameter]:
        """What is trained."""
        ...

    def modules(self) -> Iterator[nn.Module]:
        """All parts."""
        ...


class Recipe(Protocol):
    """A generator of losses: the loop makes an optimizer step for each one it yields.

    for loss in recipe(model, x, y, keys): backward; optimizer step; schedule step
    """

    def __call__(self, model: Network, x: Tensor, y: Tensor, keys: Tensor | None = None) -> Iterator[Tensor]:
        """Yield the losses of a batch, each to be descended before the next is asked for.

        x are images (N, ...) in [0, 1], y labels (N,), `keys` (N,) int64 say whose random draws to make, positions in
        the batch by default: batches differ in any case.
        """
        ...

    def end_epoch(self) -> None:
        """An epoch is over."""
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """What must survive a kill."""
        ...

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from there."""
        ...
