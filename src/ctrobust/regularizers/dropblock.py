"""DropBlock: square blocks of feature maps are dropped during training."""

from torch import Tensor, nn

from ctrobust.regularizers.blocks import outside_blocks
from ctrobust.regularizers.step_key import StepKey, check_drop, resolve_step_key


class DropBlock(nn.Module):
    """Zero b x b blocks of (N, C, H, W) maps and rescale by numel / kept; identity in eval mode.

    The dropped share grows linearly over training from 0 to `drop`; in the paper the keep rate goes from 1 to 0.9.
    """

    step_key: StepKey | None

    def __init__(self, drop: float = 0.1, block: int = 3) -> None:
        super().__init__()
        self.drop = check_drop(drop)
        self.block = block
        self.step_key = None

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        key = resolve_step_key(self.step_key, x)
        mask = outside_blocks(x, key, self.drop * key.progress, self.block)
        return x * mask.mul_(mask.numel() / mask.sum().clamp(min=1.0))

    def extra_repr(self) -> str:
        return f"drop={self.drop}, block={self.block}"
