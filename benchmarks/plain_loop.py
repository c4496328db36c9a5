"""The peer of benchmarks/training.py: written without a thought of speed. DataLoader, default layout, default SGD."""

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.5), nn.Linear(1024, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(),
        nn.Linear(200, 10),
    )  # fmt: skip


class PlainLoop:
    def __init__(self, images: Tensor, labels: Tensor, batch_size: int) -> None:
        normalized = (images.float() / 255 - 0.2860) / 0.3530
        self.loader = DataLoader(TensorDataset(normalized, labels), batch_size=batch_size, shuffle=True)
        self.batches = iter(self.loader)
        self.model = network().train()
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9, weight_decay=5e-4)
        self.total = 0.0

    def step(self) -> None:
        batch = next(self.batches, None)
        if batch is None:
            self.batches = iter(self.loader)
            batch = next(self.batches)
        x, y = batch
        self.optimizer.zero_grad()
        loss = self.criterion(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        self.total += loss.item()
