"""Disout: square blocks of feature maps are distorted instead of dropped during training."""

import torch
from torch import Tensor, nn

from ctrobust import draws
from ctrobust.regularizers.blocks import outside_blocks
from ctrobust.regularizers.step_key import StepKey, check_drop, resolve_step_key


class Disout(nn.Module):
    """Replace features inside blocks by alpha w_c std(x) N(0, 1), and divide the result by the mask's mean.

    w_c measures the effect of channel c on the following convolution: the maximum of its weight over the output
    channels, times a random sign per (c, kh, kw), averaged over the kernel; a tenth of that if the kernel is 1x1, and
    0.01 if no convolution follows. std is over the whole tensor and carries no gradient. The covered share grows
    linearly over training. The module is the identity in eval mode.
    """

    step_key: StepKey | None

    def __init__(
        self, following: nn.Conv2d | None = None, drop: float = 0.09, block: int = 6, alpha: float = 5.0
    ) -> None:
        super().__init__()
        self.drop = check_drop(drop)
        self.block = block
        self.alpha = alpha
        self.step_key = None
        self._following = (following,)  # in a tuple, so that its weights are not registered here

    def channel_weights(self, x: Tensor, stream: int) -> Tensor:
        """The weights w_c, (C,)."""
        (following,) = self._following
        if following is None:
            return x.new_full((x.shape[1],), 0.01)
        strongest = following.weight.detach().amax(0).flatten(1)
        rows = torch.arange(len(strongest), device=x.device)
        positive = draws.keep(rows, stream ^ 1, strongest.shape[1], 0.5)
        weights = torch.where(positive, strongest, -strongest).mean(1)
        return weights * 0.1 if strongest.shape[1] == 1 else weights

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or x.numel() == 0:
            return x
        key = resolve_step_key(self.step_key, x)
        mask = outside_blocks(x, key, self.drop * key.progress, self.block)
        scale = self.alpha * x.detach().std() * self.channel_weights(x, key.stream)
        noise = draws.normal(key.keys, key.stream ^ 2, tuple(x.shape[1:])) * scale.view(-1, 1, 1)
        return torch.where(mask > 0, x, noise.to(x)) / mask.mean().clamp(min=1.0 / mask.numel())

    def extra_repr(self) -> str:
        return f"drop={self.drop}, block={self.block}, alpha={self.alpha}"
