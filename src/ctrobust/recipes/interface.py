"""The interface between a recipe, the model it trains, and the training loop."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from torch import Tensor, nn


class AttackableModel(Protocol):
    """What the attack inside a recipe needs of a model."""

    def __call__(self, x: Tensor) -> object:
        """Logits (N, C), or an output that contains them (`ctrobust.model_outputs.as_logits`)."""
        ...

    def parameters(self) -> Iterator[nn.Parameter]:
        """The trained parameters, whose gradients the attack switches off."""
        ...

    def modules(self) -> Iterator[nn.Module]:
        """All submodules, which TRADES attacks in eval mode."""
        ...


class Network(Protocol):
    """What a recipe needs of a model."""

    def __call__(self, x: Tensor) -> object:
        """Logits (N, C), or an output that contains them (`ctrobust.model_outputs.as_logits`)."""
        ...

    def sample_logits(self, x: Tensor, k: int) -> Tensor:
        """Logits (k, N, C) of k sub-networks."""
        ...

    def parameters(self) -> Iterator[nn.Parameter]: ...

    def modules(self) -> Iterator[nn.Module]: ...


class Recipe(Protocol):
    """A generator of losses: the training loop makes an optimizer step for each loss that it yields.

    for loss in recipe(model, x, y, keys): backward; optimizer step; schedule step

    Attributes:
        one_step_size: size of the single step of the recipe's attack, with which collapse detection attacks too; None
            if the attack takes several steps.
    """

    one_step_size: float | None

    def __call__(self, model: Network, x: Tensor, y: Tensor, keys: Tensor | None = None) -> Iterator[Tensor]:
        """Yield the losses of a batch; each must be descended before the next one is requested.

        x are images (N, ...) in [0, 1], y labels (N,). `keys` (N,) int64 key the random draws of each example and are
        the positions in the batch by default; draws differ from batch to batch in any case.
        """
        ...

    def end_epoch(self) -> None:
        """Update what changes once an epoch."""
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """The state that a resumed run needs."""
        ...

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None: ...
