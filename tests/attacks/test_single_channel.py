"""Convolutions of one channel: torch's outputs to the bit, torch's gradients to rounding."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ctrobust import models
from ctrobust.attacks import fuse
from ctrobust.attacks.fused import FusedModel
from ctrobust.attacks.single_channel import SingleChannelConvolution


def gradient(module: nn.Module, x: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    at = x.clone().requires_grad_()
    out = module(at)
    return out.detach(), torch.autograd.grad((out * weights).sum(), at)[0]


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 3},
        {"kernel_size": 3, "padding": 1},
        {"kernel_size": 5, "padding": 2, "bias": False},
        {"kernel_size": 1},
        {"kernel_size": (2, 5), "padding": (1, 4)},
        {"kernel_size": 3, "padding": 4},
        {"kernel_size": (9, 7)},
    ],
)
def test_agrees_with_torch(options: dict[str, Any], dtype: torch.dtype, order: torch.memory_format) -> None:
    torch.manual_seed(0)
    original = nn.Conv2d(1, 6, **options).to(dtype).to(memory_format=order)  # type: ignore[call-overload]
    original.requires_grad_(False)
    assert SingleChannelConvolution.supports(original)
    x = torch.rand(3, 1, 9, 7, dtype=dtype)
    weights = torch.randn(original(x).shape, dtype=dtype)
    expected, found = gradient(original, x, weights), gradient(SingleChannelConvolution(original), x, weights)
    assert torch.equal(found[0], expected[0])
    scale = 1e-5 if dtype == torch.float32 else 1e-13
    torch.testing.assert_close(found[1], expected[1], rtol=scale, atol=scale)
    with torch.no_grad():
        assert torch.equal(SingleChannelConvolution(original)(x), original(x))


class Subclass(nn.Conv2d):
    pass


def hooked() -> nn.Conv2d:
    convolution = nn.Conv2d(1, 4, 3)
    convolution.register_forward_hook(lambda _, __, output: 2 * output)
    return convolution


@pytest.mark.parametrize(
    "module",
    [
        nn.Conv2d(3, 4, 3),
        nn.Conv2d(1, 4, 3, stride=2),
        nn.Conv2d(1, 4, 3, dilation=2),
        nn.Conv2d(1, 4, 3, padding=1, padding_mode="reflect"),
        nn.Conv2d(1, 4, 3, padding="same"),
        nn.ConvTranspose2d(1, 4, 3),
        Subclass(1, 4, 3),
        hooked(),
        nn.Linear(1, 4),
    ],
)
def test_other_modules_are_not_replaced(module: nn.Module) -> None:
    assert not SingleChannelConvolution.supports(module)


def test_a_second_derivative_raises() -> None:
    module = SingleChannelConvolution(nn.Conv2d(1, 4, 3).requires_grad_(False))
    x = torch.rand(2, 1, 5, 5, requires_grad=True)
    (first,) = torch.autograd.grad(module(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_the_fused_copy_of_a_single_channel_network_has_one() -> None:
    single, colour = (models.build("mnistnet", num_classes=10, in_channels=channels).eval() for channels in (1, 3))
    for model, channels, count in ((single, 1, 1), (colour, 3, 0)):
        fused_model = fuse(model, torch.rand(4, channels, 28, 28))
        assert isinstance(fused_model, FusedModel)
        assert sum(isinstance(module, SingleChannelConvolution) for module in fused_model.fused.modules()) == count
        assert not any(isinstance(module, SingleChannelConvolution) for module in model.modules())
