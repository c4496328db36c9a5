"""Square blocks at random positions of feature maps, as DropBlock and Disout use them."""

import torch
from torch import Tensor
from torch.nn.functional import max_pool2d, pad

from ctrobust import draws
from ctrobust.regularizers.step_key import StepKey


def seed_rate(covered: float, height: int, width: int, block: int) -> float:
    """The seed rate at which blocks cover about the share `covered` of a map, ignoring overlaps.

    covered H W / b^2 / ((H - b + 1) (W - b + 1))

    Example:
        >>> round(seed_rate(0.1, 8, 8, 3), 7), round(seed_rate(0.1, 4, 4, 3), 7), round(seed_rate(0.1, 8, 8, 7), 7)
        (0.0197531, 0.0444444, 0.0326531)
    """
    positions = (height - block + 1) * (width - block + 1)
    return covered * height * width / block**2 / positions


def outside_blocks(x: Tensor, key: StepKey, covered: float, block: int) -> Tensor:
    """A mask that is 1 outside the blocks and 0 inside, per example and channel: (N, C, H, W), x's type and layout.

    A seed is the corner of its block, drawn only where the block fits; a block larger than the map covers all of it.
    """
    channels, height, width = x.shape[1:]
    block = min(block, height, width)
    shape = (channels, height - block + 1, width - block + 1)
    rate = seed_rate(covered, height, width, block)
    seeds = (draws.uniform(key.keys, key.stream, shape) < rate).to(x.dtype)
    inside = max_pool2d(pad(seeds, [block - 1] * 4), block, stride=1)
    return torch.empty_like(x, requires_grad=False).copy_(1 - inside)
