"""Step keys: how a training loop sets the random stream, the examples and the progress of regularizers."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from ctrobust import draws
from ctrobust.errors import InputError


@dataclass(frozen=True)
class StepKey:
    """The key of one module's random draws in one step.

    Attributes:
        stream: number of the random stream of this module and step.
        keys: (N,) int64 keys of the examples' draws: their indices in the data set.
        progress: share of training that is done, in [0, 1].
    """

    stream: int
    keys: Tensor
    progress: float


@runtime_checkable
class Regularizer(Protocol):
    """A module whose random draws are keyed by a step key, or by torch's generator where it is None."""

    step_key: StepKey | None


@runtime_checkable
class HeadNoise(Regularizer, Protocol):
    """Noise at the start of a head that can be sampled several times in one batch."""

    def sample(self, x: Tensor, first: nn.Module, k: int) -> Tensor:
        """Apply `first`, the head's first layer, under k samples of the noise: (N, D) -> (k * N, ...), k-major."""
        ...


def set_step(module: nn.Module, *, seed: int, step: int, keys: Tensor, progress: float) -> None:
    """Set the step key of every regularizer in `module`, each with its own stream."""
    regularizers = [child for child in module.modules() if isinstance(child, Regularizer)]
    for position, regularizer in enumerate(regularizers):
        regularizer.step_key = StepKey(draws.stream(seed, "regularizer", position, step), keys, progress)


def clear_step(module: nn.Module) -> None:
    """Remove the step keys, so that the regularizers in `module` draw from torch's generator again."""
    for child in module.modules():
        if isinstance(child, Regularizer):
            child.step_key = None


def resolve_step_key(step_key: StepKey | None, x: Tensor) -> StepKey:
    """Return the step key or, if it is None, a new one: a stream from torch's generator, keys 0..N-1, progress 1.

    Raises if the step key is for a batch of another size.
    """
    if step_key is None:
        return StepKey(int(torch.randint(1 << 62, ()).item()), torch.arange(len(x), device=x.device), 1.0)
    if len(step_key.keys) != len(x):
        raise InputError(
            f"set_step gave a regularizer {len(step_key.keys)} keys, but the batch has {len(x)} examples; "
            "call set_step with the keys of each batch"
        )
    return step_key


def check_drop(drop: float) -> float:
    """Return the drop rate; raise if it is outside [0, 1)."""
    if not 0.0 <= drop < 1.0:
        raise InputError(f"drop must be a probability in [0, 1); got {drop}")
    return float(drop)


def sample_keys(keys: Tensor, k: int) -> Tensor:
    """Keys of k samples of each example, k-major: (N,) -> (k * N,). The keys of the first sample do not depend on k."""
    return (torch.arange(k, device=keys.device)[:, None] + (keys << 16)).flatten()
