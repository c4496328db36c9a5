"""Regularizers and networks accept a batch of no examples, as torch's own modules do."""

import pytest
import torch
from torch import nn

from ctrobust.models import build
from ctrobust.regularizers import Disout, DropBlock, DropConnect, Dropout, set_step


@pytest.mark.parametrize("module", [Dropout(0.3), DropBlock(), Disout(), Disout(nn.Conv2d(4, 4, 3))])
@pytest.mark.parametrize("with_step", [True, False])
def test_a_module_accepts_an_empty_batch(module: nn.Module, with_step: bool) -> None:
    x = torch.zeros(0, 4, 8, 8, requires_grad=True)
    if with_step:
        set_step(module, seed=0, step=0, keys=torch.arange(0), progress=0.5)
    out = module.train()(x)
    out.sum().backward()
    assert out.shape == (0, 4, 8, 8)
    assert x.grad is not None


@pytest.mark.parametrize("noise", [Dropout(0.3), Dropout(0.0), DropConnect(0.3)])
def test_head_noise_accepts_an_empty_batch(noise: Dropout | DropConnect) -> None:
    assert noise.train().sample(torch.zeros(0, 6), nn.Linear(6, 2), 3).shape == (0, 2)


@pytest.mark.parametrize("noise", ["dropout", "dropconnect"])
@pytest.mark.parametrize("training", [True, False])
def test_a_network_accepts_an_empty_batch(noise: str, training: bool) -> None:
    model = build("mnistnet", num_classes=10, in_channels=1, width=8, noise=noise, maps="disout").train(training)
    x = torch.zeros(0, 1, 28, 28)
    assert model(x).shape == (0, 10)
    assert model.sample_logits(x, 3).shape == (3, 0, 10)
