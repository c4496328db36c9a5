"""Places inside a body where feature-map regularizers may stand."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn


@dataclass(frozen=True)
class Slots:
    """What is put into a body's slots; None leaves them empty.

    Attributes:
        after_activation: behind the activations of the stages that DropBlock is for: makes the module.
        after_convolution: behind the convolutions of the last stage, before their BatchNorm, as Disout is: makes the
            module from the convolution that comes next, None behind the last.
    """

    after_activation: Callable[[], nn.Module] | None = None
    after_convolution: Callable[[nn.Conv2d | None], nn.Module] | None = None

    def activation(self, wanted: bool = True) -> nn.Module:
        """A module for a slot behind an activation."""
        return self.after_activation() if wanted and self.after_activation else nn.Identity()

    def convolution(self, following: nn.Conv2d | None) -> nn.Module:
        """A module for a slot behind a convolution, before the one that follows."""
        return self.after_convolution(following) if self.after_convolution else nn.Identity()


class ConvUnit(nn.Module):
    """Convolution, slot, BatchNorm, ReLU, slot. Empty slots keep the names of the weights as they are."""

    def __init__(self, conv: nn.Conv2d, *, relu: bool = True, drop: nn.Module | None = None) -> None:
        super().__init__()
        self.conv = conv
        self.distort: nn.Module = nn.Identity()
        self.norm = nn.BatchNorm2d(conv.out_channels)
        self.relu: nn.Module = nn.ReLU(inplace=True) if relu else nn.Identity()
        self.drop: nn.Module = drop if drop is not None else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """In this order."""
        out: Tensor = self.drop(self.relu(self.norm(self.distort(self.conv(x)))))
        return out


def distort_stage(units: list[ConvUnit], slots: Slots) -> None:
    """Fill the slots behind the convolutions of a stage, each knowing the convolution that follows it."""
    following: list[nn.Conv2d | None] = [*[unit.conv for unit in units[1:]], None]
    for unit, after in zip(units, following, strict=True):
        unit.distort = slots.convolution(after)


def conv3x3(channels_in: int, channels_out: int, stride: int = 1) -> nn.Conv2d:
    """A 3x3 convolution that keeps the size; BatchNorm follows, so it has no bias."""
    return nn.Conv2d(channels_in, channels_out, 3, stride=stride, padding=1, bias=False)
