"""DropBlock: schedule, rescaling, identity in evaluation."""

import torch

from ctrobust import draws
from ctrobust.regularizers import DropBlock
from ctrobust.regularizers.step_key import StepKey


def with_step(progress: float, count: int = 64) -> DropBlock:
    module = DropBlock(drop=0.1, block=3)
    module.step_key = StepKey(draws.stream(3), torch.arange(count), progress)
    return module


def test_evaluation_is_the_identity() -> None:
    x = torch.rand(4, 3, 8, 8)
    assert torch.equal(DropBlock().eval()(x), x)


def test_nothing_is_dropped_at_the_start_of_training() -> None:
    x = torch.rand(64, 3, 8, 8)
    assert torch.equal(with_step(0.0)(x), x)


def test_the_dropped_share_grows_linearly() -> None:
    x = torch.ones(64, 64, 8, 8)
    shares = [(with_step(progress)(x) == 0).float().mean().item() for progress in (0.25, 0.5, 1.0)]
    # because of overlaps the share is a little below the rate; at the smallest rate there are about 700 blocks
    for share, progress in zip(shares, (0.25, 0.5, 1.0), strict=True):
        assert 0.85 * 0.1 * progress < share < 1.12 * 0.1 * progress


def test_the_mean_of_constant_maps_is_preserved() -> None:
    out = with_step(1.0)(torch.ones(64, 16, 8, 8, dtype=torch.float64))
    torch.testing.assert_close(out.mean(), torch.tensor(1.0, dtype=torch.float64))


def test_gradients_are_zero_exactly_where_features_are_dropped() -> None:
    x = torch.rand(64, 3, 8, 8, requires_grad=True)
    out = with_step(1.0)(x)
    out.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad == 0, out.detach() == 0)
