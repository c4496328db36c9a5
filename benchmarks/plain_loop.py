"""The peer of benchmarks/training.py: written with ordinary torch. Default layout, default modules, default SGD.

Fashion-MNIST's images come from a DataLoader; CIFAR's, cropped and flipped, are picked from memory and moved as whole
batches, because with a DataLoader's work for each image there would be nothing to compare.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.functional import pad, relu
from torch.utils.data import DataLoader, TensorDataset

Batches = Iterator[tuple[Tensor, Tensor]]


def mnistnet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.5), nn.Linear(1024, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(),
        nn.Linear(200, 10),
    )  # fmt: skip


class Block(nn.Module):
    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride=stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        self.shortcut = nn.Sequential()
        if stride != 1 or channels_in != channels:
            narrow = nn.Conv2d(channels_in, channels, 1, stride=stride, bias=False)
            self.shortcut = nn.Sequential(narrow, nn.BatchNorm2d(channels))

    def forward(self, x: Tensor) -> Tensor:
        out = self.norm2(self.conv2(relu(self.norm1(self.conv1(x)))))
        return relu(out + self.shortcut(x))


def resnet18(width: int) -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    channels = width
    for own, stride in ((width, 1), (2 * width, 2), (4 * width, 2), (8 * width, 2)):
        layers += [Block(channels, own, stride), Block(own, own, 1)]
        channels = own
    pooled = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5), nn.Linear(channels, 10)]
    return nn.Sequential(*layers, *pooled)


def loaded(images: Tensor, labels: Tensor, batch_size: int, mean: Tensor, std: Tensor) -> Batches:
    """Normalized once, shuffled and stacked by a DataLoader, for ever."""
    loader = DataLoader(TensorDataset((images / 255 - mean) / std, labels), batch_size=batch_size, shuffle=True)
    while True:
        yield from loader


def cropped(images: Tensor, labels: Tensor, batch_size: int, mean: Tensor, std: Tensor) -> Batches:
    """Picked by index, normalized, cropped and flipped as a batch, for ever."""
    while True:
        for index in torch.split(torch.randperm(len(images)), batch_size):
            yield crop_flip((images[index].float() / 255 - mean) / std), labels[index]


def crop_flip(x: Tensor, margin: int = 4) -> Tensor:
    """Each image flipped with probability 1/2, padded, and cropped back anywhere."""
    count, channels, height, width = x.shape
    x = torch.where(torch.rand(count, 1, 1, 1) < 0.5, x.flip(3), x)
    rows = torch.randint(2 * margin + 1, (count, 1)) + torch.arange(height)
    columns = torch.randint(2 * margin + 1, (count, 1)) + torch.arange(width)
    picked = torch.arange(count)[:, None, None, None], torch.arange(channels)[:, None, None]
    return pad(x, (margin,) * 4)[*picked, rows[:, None, :, None], columns[:, None, None, :]]


class PlainLoop:
    def __init__(self, model: nn.Module, batches: Batches) -> None:
        self.model, self.batches = model.train(), batches
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
        self.total = 0.0

    def batch(self) -> tuple[Tensor, Tensor]:
        return next(self.batches)

    def step(self) -> None:
        x, y = self.batch()
        self.optimizer.zero_grad()
        loss = self.criterion(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        self.total += loss.item()


class Normalized(nn.Module):
    mean: Tensor
    std: Tensor

    def __init__(self, model: nn.Module, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.model((x - self.mean) / self.std)
        return logits


class PlainMadry(PlainLoop):
    """PGD-7 by loss.backward(), which also makes the gradients of all weights, then the descent's pass."""

    def batch(self) -> tuple[Tensor, Tensor]:
        x, y = super().batch()
        eps, step = 8 / 255, 2 / 255
        adv = (x + torch.empty_like(x).uniform_(-eps, eps)).clamp(0, 1)
        for _ in range(7):
            adv = adv.detach().requires_grad_()
            self.criterion(self.model(adv), y).backward()
            assert adv.grad is not None
            adv = torch.min(torch.max(adv.detach() + step * adv.grad.sign(), x - eps), x + eps).clamp(0, 1)
        return adv.detach(), y
