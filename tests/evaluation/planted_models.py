"""Networks with planted gradient masking, and honestly trained ones: what the verdict must find, and what it must not.

All are tiny networks for scikit-learn's digits, trained in seconds.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from ctrobust import data, draws, losses
from ctrobust.recipes.fast import Fast
from ctrobust.recipes.madry import Madry


class TinyNet(nn.Module):
    """Two convolutions and two linear layers for digits of 28x28 pixels."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 16, 3), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.MaxPool2d(2), nn.ReLU(),
            nn.Flatten(), nn.Linear(32 * 25, 64), nn.ReLU(),
        )  # fmt: skip
        self.head = nn.Linear(64, classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(x - 0.5))
        return logits


def natural_loss(net: TinyNet, x: Tensor, y: Tensor, keys: Tensor) -> Iterator[Tensor]:
    del keys
    yield losses.cross_entropy(net(x), y).mean()


@dataclass(frozen=True)
class Training:
    """How a tiny network is trained: the radius and the steps of its attack, 0 for none, epochs and learning rate.

    The first `natural_epochs` are without an attack: on tiny networks attacks of a large radius prevent learning.
    """

    eps: float
    attack_steps: int
    epochs: int
    lr: float
    natural_epochs: int = 0

    def recipe(self, seed: int) -> Callable[[Any, Tensor, Tensor, Tensor], Iterator[Tensor]]:
        if not self.attack_steps:
            return natural_loss
        if self.attack_steps == 1:
            return Fast(self.eps, seed=seed)
        return Madry(self.eps, self.attack_steps, seed=seed)


TRAININGS = {
    "natural": Training(0.0, 0, 6, 0.05),
    "madry": Training(0.1, 5, 10, 0.05),
    "fast": Training(0.3, 1, 20, 0.1, 3),
}


def train_tiny(how: Training, seed: int = 0) -> TinyNet:
    """Train by SGD with momentum and a rate that rises and falls."""
    train = data.load("digits", "train")
    images, labels = data.to_float(train.images), train.labels
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = TinyNet()
    recipe = how.recipe(seed)
    optimizer = torch.optim.SGD(net.parameters(), lr=how.lr, momentum=0.9, weight_decay=5e-4)
    steps = how.epochs * (len(labels) // 64)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, how.lr, steps, pct_start=0.4, cycle_momentum=False)
    for epoch in range(how.epochs):
        order = draws.permutation(len(labels), draws.stream(seed, "planted", epoch))
        for index in order.split(64)[: len(labels) // 64]:
            for loss in (natural_loss if epoch < how.natural_epochs else recipe)(
                net, images[index], labels[index], index
            ):
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
    return net.eval()


def trained(name: str, folder: Path, seed: int = 0) -> TinyNet:
    """A network trained by one of TRAININGS, kept in a folder so that it is trained once."""
    file = folder / f"{name}-{hash_of(TRAININGS[name], seed)}.safetensors"
    if not file.exists():
        net = train_tiny(TRAININGS[name], seed)
        partial = file.with_suffix(f".{os.getpid()}")
        save_file(net.state_dict(), partial)
        partial.replace(file)  # another process may train the same network
    net = TinyNet()
    net.load_state_dict(load_file(file))
    return net.eval()


def hash_of(how: Training, seed: int) -> str:
    """Changes with the training and with anything else in this file."""
    return f"{draws.stream(repr(how), seed, Path(__file__).read_text(encoding='utf-8')) & 0xFFFFFFFF:08x}"


class ScaledSoftmax(nn.Module):
    """Probabilities times 1e4 in place of logits: cross-entropy of them has a gradient of exactly zero."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.net(x)
        return 1e4 * logits.softmax(1)


class OneBitInput(nn.Module):
    """Pixels rounded to black or white."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.net((x > 0.5).to(x))
        return logits


class RoundedLogits(nn.Module):
    """Logits rounded to whole numbers."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.net(x)
        return logits.round()


class NoisyInput(nn.Module):
    """Noise added to the image in each forward pass."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.net(x + 0.1 * torch.randn_like(x))
        return logits


class LookupInput(nn.Module):
    """Each of 256 grey levels replaced by an entry of a table, which cannot be differentiated."""

    table: Tensor

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.register_buffer("table", torch.linspace(0, 1, 256).pow(0.9))

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.net(self.table[(255 * x).round().long()])
        return logits


class RippledInput(nn.Module):
    """Fine ripples added to the grey levels: the image hardly changes, but its gradient points anywhere."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.net(x + 0.02 * torch.sin(400 * x))
        return logits


def unchanged(net: nn.Module) -> nn.Module:
    return net


@dataclass(frozen=True)
class Planted:
    """A network of the matrix.

    Attributes:
        training: the name of its training.
        eps: the radius at which it is tested: where the network without masking is robust on some examples, not all.
        wrap: what is planted into it.
        raises: the tests of which at least one must be raised; none for an honest network.
        level: the level of the verdict.
    """

    training: str
    eps: float
    wrap: Callable[[nn.Module], nn.Module]
    raises: tuple[str, ...]
    level: str

    def build(self, folder: Path, seed: int = 0) -> nn.Module:
        """The network, trained with this seed or read from the folder."""
        return self.wrap(trained(self.training, folder, seed)).eval()


PLANTED: dict[str, Planted] = {
    "scaled softmax": Planted("natural", 0.05, ScaledSoftmax, ("zero gradients",), "masked"),
    "1-bit input": Planted("natural", 0.05, OneBitInput, ("zero gradients",), "masked"),
    "rounded logits": Planted("natural", 0.05, RoundedLogits, ("zero gradients",), "masked"),
    "noisy input": Planted("natural", 0.05, NoisyInput, ("randomized",), "suspicious"),
    "lookup": Planted("natural", 0.05, LookupInput, ("zero gradients",), "masked"),
    "rippled input": Planted("natural", 0.05, RippledInput, ("black box beats white box",), "masked"),
    "collapsed Fast-AT": Planted("fast", 0.3, unchanged, ("one step beats many",), "suspicious"),
    "honest Madry-AT": Planted("madry", 0.1, unchanged, (), "none found"),
    "honest natural": Planted("natural", 0.05, unchanged, (), "none found"),
}
"""Name -> the network and what the verdict must say of it."""
