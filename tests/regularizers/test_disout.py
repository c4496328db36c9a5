"""Disout: strength and place of the distortion, gradients."""

import pytest
import torch
from torch import nn

from ctrobust import draws
from ctrobust.regularizers import Disout
from ctrobust.regularizers.step_key import StepKey


def with_step(module: Disout, count: int, progress: float = 1.0) -> Disout:
    module.step_key = StepKey(draws.stream(5), torch.arange(count), progress)
    return module


def test_evaluation_is_the_identity() -> None:
    x = torch.randn(4, 3, 8, 8)
    assert torch.equal(Disout().eval()(x), x)


def test_nothing_is_distorted_at_the_start_of_training() -> None:
    x = torch.randn(8, 3, 8, 8)
    assert torch.equal(with_step(Disout(), 8, progress=0.0)(x), x)


def test_without_a_following_convolution_the_noise_has_deviation_alpha_times_one_hundredth_of_std() -> None:
    x = 100 + torch.randn(200, 32, 8, 8)  # far from zero, so that distorted features can be recognized
    out = with_step(Disout(None, alpha=5.0), 200)(x)
    kept = out > 50
    share = kept.float().mean()
    noise = out[~kept] * share  # the result was divided by the mask's mean
    assert 0.03 < 1 - share < 0.12
    torch.testing.assert_close(noise.std(), 5 * 0.01 * x.std(), rtol=0.03, atol=0.0)
    assert abs(noise.mean()) < 4 * noise.std() / noise.numel() ** 0.5
    torch.testing.assert_close(out[kept], x[kept] / share)


@pytest.mark.parametrize(("kernel", "factor"), [(3, 1.0), (1, 0.1)])
def test_channel_weights_come_from_the_following_convolution(kernel: int, factor: float) -> None:
    conv = nn.Conv2d(4, 6, kernel)
    module = Disout(conv)
    found = module.channel_weights(torch.zeros(1, 4, 8, 8), stream=11)
    strongest = conv.weight.detach().amax(0).flatten(1)
    signs = torch.where(draws.keep(torch.arange(4), 11 ^ 1, kernel * kernel, 0.5), 1.0, -1.0)
    torch.testing.assert_close(found, factor * (strongest * signs).mean(1))


def test_the_following_convolution_is_not_a_parameter_of_disout() -> None:
    assert list(Disout(nn.Conv2d(4, 6, 3)).parameters()) == []


def test_std_carries_no_gradient() -> None:
    x = torch.randn(16, 4, 8, 8, requires_grad=True)
    module = with_step(Disout(), 16)
    out = module(x)
    out.sum().backward()
    assert x.grad is not None
    levels = torch.unique(x.grad)
    assert len(levels) == 2  # 0 inside the blocks, 1 / mean of the mask outside
    assert levels[0] == 0
