"""How a training loop tells random modules whose draws to make, and how far training is."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from ctrobust import draws
from ctrobust.errors import InputError


@dataclass(frozen=True)
class Draw:
    """What a random module needs to know of a step.

    Attributes:
        stream: the number of the random stream of this module and step.
        keys: (N,) int64, whose draws: the examples' indices in the data set.
        progress: how much of training is done, in [0, 1].
    """

    stream: int
    keys: Tensor
    progress: float


@runtime_checkable
class Regularizer(Protocol):
    """A module with randomness of its own."""

    draw: Draw | None


@runtime_checkable
class HeadNoise(Regularizer, Protocol):
    """Noise at the start of a head, of which several samples can be taken at once."""

    def sample(self, x: Tensor, first: nn.Module, k: int) -> Tensor:
        """Apply `first`, the head's first layer, under k draws of the noise: (N, D) -> (k * N, ...), k-major."""
        ...


def set_step(module: nn.Module, *, seed: int, step: int, keys: Tensor, progress: float) -> None:
    """Set the draw of every regularizer inside `module`, each with a stream of its own."""
    parts = [part for part in module.modules() if isinstance(part, Regularizer)]
    for position, part in enumerate(parts):
        part.draw = Draw(draws.stream(seed, "regularizer", position, step), keys, progress)


def clear_step(module: nn.Module) -> None:
    """Undo `tell`: the regularizers inside `module` draw from torch's generator again."""
    for part in module.modules():
        if isinstance(part, Regularizer):
            part.draw = None


def fresh(draw: Draw | None, x: Tensor) -> Draw:
    """The told draw, or a fresh stream from torch's generator with keys 0..N-1; refuses keys for another batch.

    A module that was told nothing is at its full strength: the progress is 1.
    """
    if draw is None:
        return Draw(int(torch.randint(1 << 62, ()).item()), torch.arange(len(x), device=x.device), 1.0)
    if len(draw.keys) != len(x):
        raise InputError(f"a regularizer was told {len(draw.keys)} keys but got a batch of {len(x)}; tell(...) it anew")
    return draw


def check_drop(drop: float) -> float:
    """Refuse a drop rate outside [0, 1)."""
    if not 0.0 <= drop < 1.0:
        raise InputError(f"drop is a probability in [0, 1), got {drop}")
    return float(drop)


def sample_keys(keys: Tensor, k: int) -> Tensor:
    """Keys of k samples of each example, k-major: (N,) -> (k * N,). The first sample's are those of k = 1."""
    return (torch.arange(k, device=keys.device)[:, None] + (keys << 16)).flatten()
