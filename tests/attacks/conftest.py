"""Real images, and a small network trained on them in a second, both in float64."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool2d, cross_entropy

from ctrobust import data
from tests.attacks.strength import PEERS


def examples(split: str) -> tuple[Tensor, Tensor]:
    loaded = data.load("digits", split=split)
    return avg_pool2d(loaded.images.double() / 255, 2), loaded.labels


@pytest.fixture(scope="session")
def digits() -> tuple[Tensor, Tensor]:
    """The first 250 test images, (250, 1, 14, 14) in [0, 1], and their labels."""
    x, y = examples("test")
    return x[:250], y[:250]


@pytest.fixture(scope="session")
def network() -> nn.Sequential:
    """A classifier of these images with high accuracy; tests that change it copy it first."""
    x, y = examples("train")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2, padding=1), nn.ReLU(),
            nn.Flatten(), nn.Linear(256, 10),
        ).double()  # fmt: skip
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        for _ in range(5):
            for batch in torch.split(torch.randperm(len(x)), 64):
                optimizer.zero_grad()
                torch.autograd.backward(cross_entropy(model(x[batch]), y[batch]))
                optimizer.step()
    optimizer.zero_grad()
    return model.eval()


Peer = Callable[[str], Path]


@pytest.fixture(scope="session")
def peer(in_ci: bool) -> Peer:
    """The folder of a library that we compare with; without it the test is skipped, and fails in CI."""

    def folder(name: str) -> Path:
        if not (PEERS / name).is_dir():
            assert not in_ci, f"CI compares with {name}, which is not in {PEERS}"
            pytest.skip(f"{name} is not in {PEERS}: `make .peers/.done` puts it there")
        return PEERS

    return folder
