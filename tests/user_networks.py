"""Networks of a user, as factories `tests.user_networks:NAME`: good ones, and one for each mistake."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from ctrobust import data
from ctrobust.models import BlackBox

OFFSET = 0.0
"""What `linear` adds to the brightness of its images; a test changes it, as a user changes code."""


class Linear(nn.Module):
    """The nearest class mean, which is a linear network; subclasses change what goes in and out."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.layer = nn.Linear(784, classes)

    def before(self, x: Tensor) -> Tensor:
        return x + OFFSET * torch.linspace(0, 1, 28)

    def after(self, logits: Tensor) -> Any:
        return logits

    def forward(self, x: Tensor) -> Any:
        return self.after(self.layer(self.before(x).flatten(1)))


def linear() -> nn.Module:
    print("building")  # which must not reach standard output
    return Linear()


class _Scaled(Linear):
    def before(self, x: Tensor) -> Tensor:
        return x / 255


class _Noisy(Linear):
    def before(self, x: Tensor) -> Tensor:
        return x + 0.2 * torch.randn_like(x)


class _Object(Linear):
    def after(self, logits: Tensor) -> Any:
        return SimpleNamespace(logits=logits)


class _Tuple(Linear):
    def after(self, logits: Tensor) -> Any:
        return logits, logits.sum()


class _Dict(Linear):
    def after(self, logits: Tensor) -> Any:
        return {"logits": logits, "features": logits}


class _Softmax(Linear):
    def after(self, logits: Tensor) -> Any:
        return logits.softmax(1)


class _NaN(Linear):
    def after(self, logits: Tensor) -> Any:
        return logits * torch.nan


class _Detached(Linear):
    def after(self, logits: Tensor) -> Any:
        return logits.detach()


class _AlwaysTraining(Linear):
    def train(self, mode: bool = True) -> "_AlwaysTraining":  # noqa: ARG002
        return super().train(True)


scaled, noisy, objects, tuples, dicts = _Scaled, _Noisy, _Object, _Tuple, _Dict
softmax, nan, detached, always_training = _Softmax, _NaN, _Detached, _AlwaysTraining


def five_classes() -> nn.Module:
    return Linear(5)


def three_channels() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(2 * 26 * 26, 10))


def large_images() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(1024, 10))


def black_box() -> nn.Module:
    network = class_means()
    return BlackBox(lambda images: network(torch.from_numpy(images)).detach().numpy())


def small() -> nn.Module:
    """A network with dropout of its own and BatchNorm, to be trained."""
    return nn.Sequential(
        nn.Conv2d(1, 4, 5, stride=4), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dropout(0.3), nn.Linear(144, 10)
    )


class _TwoHeads(nn.Module):
    """A sum of two layers, before which no noise can be put."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(784, 10), nn.Linear(784, 10)

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        return self.first(flat) + self.second(flat)  # type: ignore[no-any-return]


two_heads = _TwoHeads


def without_linear() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 10, 28), nn.Flatten())


def number() -> int:
    return 3


def failing() -> nn.Module:
    raise KeyError("width")


def class_means() -> Linear:
    """Classify by the nearest class mean of the digits: |x - m|^2 is linear up to |x|^2."""
    digits, network = data.load("digits", "train"), Linear().eval()
    images = data.to_float(digits.images).flatten(1)
    means = torch.stack([images[digits.labels == label].mean(0) for label in range(10)])
    network.layer.weight.data, network.layer.bias.data = 2 * means, -(means**2).sum(1)
    return network


def write_class_means(path: Path, prefix: str = "", scale: float = 1.0) -> None:
    """Write the weights of `class_means` as safetensors, or with the suffix .pt as torch.save does."""
    tensors = {prefix + name: scale * tensor for name, tensor in class_means().state_dict().items()}
    if path.suffix == ".pt":
        torch.save(tensors, path)
    else:
        safetensors.torch.save_file(tensors, path)
