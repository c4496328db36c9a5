"""The networks that benchmarks/attacks.py attacks: trained once, in a few minutes, and kept."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, interpolate

from ctrobust import data, models
from ctrobust.attacks import PGD

NETWORKS = {"mnistnet": 64, "resnet18": 16}
"""Name -> width."""

TRAINED_EPS = {"mnistnet": 0.1, "resnet18": 0.06}
CUSTOMARY_EPS = {"mnistnet": 0.3, "resnet18": 8 / 255}
DATASETS = {"mnistnet": "mnist", "resnet18": "cifar10"}
ATTACKED = 512
"""Test images, at most."""
CHOSEN_ON = 128
"""The radii are chosen on so many of them."""


@dataclass(frozen=True)
class Subject:
    """A network in eval mode and test images that it classifies rightly, with radii to attack it at.

    Attributes:
        model, x, y: what is attacked; x is (N, C, H, W) in [0, 1].
        trained: the radius that it was trained at, 0 for natural training.
        fatal: of natural training, the customary one if PGD-20 leaves less than a hundredth there, else the first at
            which it does; of adversarial training, the first at which it leaves less than half.
    """

    model: nn.Module
    x: Tensor
    y: Tensor
    trained: float
    fatal: float


def examples(network: str, split: str, root: Path | None, most: int) -> tuple[Tensor, Tensor]:
    """Images of MNIST or CIFAR-10; without a data root the embedded digits in their shape."""
    loaded = data.load(DATASETS[network] if root else "digits", split, root)
    x, y = loaded.images[:most].float() / 255, loaded.labels[:most]
    if network == "resnet18" and x.shape[1] == 1:
        x = interpolate(x, size=(32, 32), mode="bilinear", align_corners=False).expand(-1, 3, -1, -1).contiguous()
    return x, y


def build(network: str) -> nn.Module:
    return models.build(
        network, num_classes=10, in_channels=1 if network == "mnistnet" else 3, width=NETWORKS[network], noise="none"
    )


def load(path: Path, network: str) -> Subject:
    tensors = load_file(path)
    x, y, radii = (tensors.pop(name) for name in ("x", "y", "radii"))
    model = build(network)
    model.load_state_dict(tensors)
    trained, fatal = radii.tolist()
    return Subject(model.eval(), x, y, trained, fatal)


def make(path: Path, network: str, *, adversarial: bool, root: Path | None, epochs: int, most: int) -> None:
    """Train, choose the radii, keep; nothing where that was done before."""
    if path.exists():
        return
    torch.manual_seed(0)
    x, y = examples(network, "train", root, most)
    mean, std = x.mean((0, 2, 3)), x.std((0, 2, 3))
    model = build(network)
    normalize = model.get_submodule("normalize")
    normalize.get_buffer("mean").copy_(mean.view(-1, 1, 1))
    normalize.get_buffer("std").copy_(std.view(-1, 1, 1))
    eps = TRAINED_EPS[network] if adversarial else 0.0
    fit(model, x, y, eps, epochs)
    model.eval()
    x, y = examples(network, "test", root, 4 * ATTACKED)
    with torch.no_grad():
        right = torch.cat([model(part).argmax(1) for part in x.split(128)]) == y
    x, y = x[right][:ATTACKED], y[right][:ATTACKED]
    fatal = radius(model, x[:CHOSEN_ON], y[:CHOSEN_ON], 0.5 if adversarial else 0.01)
    if not adversarial:
        fatal = max(fatal, CUSTOMARY_EPS[network])
    path.parent.mkdir(parents=True, exist_ok=True)
    radii = torch.tensor([eps, fatal], dtype=torch.float64)
    save_file({**model.state_dict(), "x": x, "y": y, "radii": radii}, path)


def fit(model: nn.Module, x: Tensor, y: Tensor, eps: float, epochs: int) -> None:
    """Adam; with `eps`, after a first natural epoch, on examples of a short PGD."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    attack = PGD(eps, steps=2, step_size=0.7 * eps, success="last")
    model.train()
    for epoch in range(epochs):
        for i, batch in enumerate(torch.randperm(len(x)).split(64)):
            seen = x[batch]
            if eps and epoch:
                seen = dataclasses.replace(attack, seed=1000 * epoch + i)(model, seen, y[batch])
            optimizer.zero_grad()
            torch.autograd.backward(cross_entropy(model(seen), y[batch]))
            optimizer.step()


def radius(model: nn.Module, x: Tensor, y: Tensor, share: float) -> float:
    """The first of 1/64, 2/64, .. at which PGD-20 leaves less than this share of the images.

    Who falls is not attacked again: a wider ball holds the narrower.
    """
    least = share * len(x)
    for level in range(1, 65):
        active = ~PGD(level / 64).run(model, x, y).success
        x, y = x[active], y[active]
        if len(x) < least:
            return level / 64
    raise ValueError(f"PGD leaves more than {share} at any radius")
