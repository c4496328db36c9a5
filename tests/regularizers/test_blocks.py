"""Blocks: seed rates, whole squares, dependence on keys."""

import math

import pytest
import torch

from ctrobust import draws
from ctrobust.regularizers.blocks import outside_blocks, seed_rate
from ctrobust.regularizers.step_key import StepKey


def step_key(count: int, name: str = "blocks") -> StepKey:
    return StepKey(draws.stream(0, name), torch.arange(count), 1.0)


@pytest.mark.parametrize(("size", "block", "rate"), [(8, 3, 0.0197531), (4, 3, 0.0444444), (8, 7, 0.0326531)])
def test_hand_checked_seed_rates(size: int, block: int, rate: float) -> None:
    assert seed_rate(0.1, size, size, block) == pytest.approx(rate, abs=5e-8)


@pytest.mark.parametrize(
    ("size", "block", "covered"), [(8, 3, 0.1), (4, 3, 0.1), (8, 7, 0.1), (10, 6, 0.09), (6, 1, 0.3)]
)
def test_seeds_have_the_rate_of_the_formula(size: int, block: int, covered: float) -> None:
    x = torch.zeros(400, 32, size, size)
    kept = outside_blocks(x, step_key(400), covered, block)
    # the top left position is covered only by a seed in that corner
    measured = 1 - kept[:, :, 0, 0].mean().item()
    rate = seed_rate(covered, size, size, block)
    assert abs(measured - rate) <= 3 * math.sqrt(rate * (1 - rate) / (400 * 32))


def test_dropped_positions_form_whole_squares_inside_the_map() -> None:
    x = torch.zeros(50, 4, 8, 8)
    dropped = 1 - outside_blocks(x, step_key(50), 0.1, 3)
    windows = dropped.unfold(2, 3, 1).unfold(3, 3, 1).amin((-1, -2))  # 1 where a whole 3x3 is dropped
    covered = torch.nn.functional.max_pool2d(torch.nn.functional.pad(windows, [2] * 4), 3, stride=1)
    assert dropped.sum() > 0
    assert torch.equal(covered, dropped)


def test_a_block_as_large_as_the_map_drops_whole_channels() -> None:
    kept = outside_blocks(torch.zeros(200, 8, 4, 4), step_key(200), 0.25, 7)
    per_channel = kept.flatten(2)
    assert set(per_channel.mean(2).flatten().tolist()) == {0.0, 1.0}


def test_masks_depend_only_on_the_examples_key() -> None:
    x = torch.zeros(10, 3, 8, 8)
    whole = outside_blocks(x, step_key(10), 0.2, 3)
    chosen = torch.tensor([7, 2])
    part = outside_blocks(x[:2], StepKey(draws.stream(0, "blocks"), chosen, 1.0), 0.2, 3)
    assert torch.equal(part, whole[chosen])


def test_the_mask_has_the_memory_format_of_the_input() -> None:
    x = torch.zeros(4, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    assert outside_blocks(x, step_key(4), 0.1, 3).is_contiguous(memory_format=torch.channels_last)
