"""DropBlock: square parts of feature maps are dropped during training."""

from torch import Tensor, nn

from ctrobust.regularizers.blocks import outside_blocks
from ctrobust.regularizers.step_key import Draw, check_drop, fresh


class DropBlock(nn.Module):
    """Zero b x b blocks of (N, C, H, W) maps and rescale by numel / kept; identity in eval mode.

    The dropped share grows linearly over training, from 0 to `drop`: the paper's keep rate goes from 1 to 0.9.
    """

    draw: Draw | None

    def __init__(self, drop: float = 0.1, block: int = 3) -> None:
        super().__init__()
        self.drop = check_drop(drop)
        self.block = block
        self.draw = None

    def forward(self, x: Tensor) -> Tensor:
        """Drop blocks."""
        if not self.training:
            return x
        draw = fresh(self.draw, x)
        mask = outside_blocks(x, draw, self.drop * draw.progress, self.block)
        return x * mask.mul_(mask.numel() / mask.sum().clamp(min=1.0))

    def extra_repr(self) -> str:
        """The largest dropped share and the block's side."""
        return f"drop={self.drop}, block={self.block}"
