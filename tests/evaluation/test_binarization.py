from pathlib import Path

import torch
from torch import Tensor, nn

from ctrobust.attacks import PGD
from ctrobust.data import Dataset, to_float
from ctrobust.evaluation.binarization import binarize, last_linear
from tests.evaluation.planted_models import LookupInput, trained


class Unordered(nn.Module):
    """Layers defined in another order than they are called, one of them never."""

    def __init__(self) -> None:
        super().__init__()
        self.last, self.unused, self.first = nn.Linear(8, 3), nn.Linear(3, 3), nn.Linear(4, 8)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.last(self.first(x.flatten(1)).relu())
        return logits


def test_the_last_linear_layer_is_the_one_called_last() -> None:
    model = Unordered()
    assert last_linear(model, torch.rand(1, 1, 2, 2)) is model.last
    assert last_linear(nn.Flatten(), torch.rand(1, 1, 2, 2)) is None
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_an_honest_network_is_solved_and_one_without_gradients_is_not(planted_folder: Path, digits: Dataset) -> None:
    net = trained("natural", planted_folder)
    x, y, keys = to_float(digits.images[:8]), digits.labels[:8], torch.arange(8)
    attack = PGD(eps=0.05)
    honest = binarize(net, x, y, keys, attack)
    hidden = binarize(LookupInput(net).eval(), x, y, keys, attack)
    assert honest is not None
    assert hidden is not None
    assert honest.fitted.all()
    assert honest.reached.all()
    assert hidden.fitted.all()
    assert not hidden.reached.any()
    assert honest.forwards == 8 * (32 + 1 + 22)  # 32 inner points, the corner, the clean image, 20 steps and the last


def test_features_that_do_not_depend_on_the_image_cannot_be_fitted() -> None:
    class Constant(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(8, 3)

        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = self.linear(0 * x.flatten(1)[:, :1].expand(-1, 8) + 1)
            return logits

    x, y = torch.rand(2, 1, 3, 3), torch.zeros(2, dtype=torch.int64)
    found = binarize(Constant().eval(), x, y, torch.arange(2), PGD(eps=0.1))
    assert found is not None
    assert not found.fitted.any()
    assert not found.reached.any()


def test_a_network_without_a_linear_layer_has_no_binary_problem() -> None:
    model = nn.Sequential(nn.Conv2d(1, 3, 2), nn.Flatten()).eval()
    x, y = torch.rand(2, 1, 2, 2), torch.zeros(2, dtype=torch.int64)
    assert binarize(model, x, y, torch.arange(2), PGD(eps=0.1)) is None
