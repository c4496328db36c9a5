"""Disout: square parts of feature maps are distorted, not dropped, during training."""

import torch
from torch import Tensor, nn

from ctrobust import draws
from ctrobust.regularizers.blocks import outside_blocks
from ctrobust.regularizers.step_key import Draw, check_drop, fresh


class Disout(nn.Module):
    """Inside blocks a feature becomes alpha w_c std(x) N(0, 1); the result is divided by the mask's mean.

    w_c is what the next convolution makes of channel c: its weight's maximum over the output channels, times a random
    sign per (c, kh, kw), averaged over the kernel; a tenth of it where that kernel is 1x1, and 0.01 where no
    convolution follows. std is over the whole tensor and not differentiated. The covered share grows linearly over
    training.
    """

    draw: Draw | None

    def __init__(
        self, following: nn.Conv2d | None = None, drop: float = 0.09, block: int = 6, alpha: float = 5.0
    ) -> None:
        super().__init__()
        self.drop = check_drop(drop)
        self.block = block
        self.alpha = alpha
        self.draw = None
        self._following = (following,)  # in a tuple, so that its weights are not this module's

    def channel_weights(self, x: Tensor, stream: int) -> Tensor:
        """w_c: (C,)."""
        (following,) = self._following
        if following is None:
            return x.new_full((x.shape[1],), 0.01)
        strongest = following.weight.detach().amax(0).flatten(1)
        rows = torch.arange(len(strongest), device=x.device)
        positive = draws.keep(rows, stream ^ 1, strongest.shape[1], 0.5)
        weights = torch.where(positive, strongest, -strongest).mean(1)
        return weights * 0.1 if strongest.shape[1] == 1 else weights

    def forward(self, x: Tensor) -> Tensor:
        """Distort blocks."""
        if not self.training or x.numel() == 0:
            return x
        draw = fresh(self.draw, x)
        mask = outside_blocks(x, draw, self.drop * draw.progress, self.block)
        scale = self.alpha * x.detach().std() * self.channel_weights(x, draw.stream)
        noise = draws.normal(draw.keys, draw.stream ^ 2, tuple(x.shape[1:])) * scale.view(-1, 1, 1)
        return torch.where(mask > 0, x, noise.to(x)) / mask.mean().clamp(min=1.0 / mask.numel())

    def extra_repr(self) -> str:
        """The largest covered share, the block's side, the strength."""
        return f"drop={self.drop}, block={self.block}, alpha={self.alpha}"
