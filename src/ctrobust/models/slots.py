"""Slots for feature-map regularizers inside a network's body."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from torch import Tensor, nn


@dataclass(frozen=True)
class Slots:
    """The factories of the modules in a body's slots; None leaves the slots empty.

    Attributes:
        after_activation: makes the module after each activation of the stages that use DropBlock.
        after_convolution: makes the module after each convolution of the last stage, before BatchNorm, as Disout needs
            it; the argument is the following convolution, None after the last one.
    """

    after_activation: Callable[..., nn.Module] | None = None
    after_convolution: Callable[..., nn.Module] | None = None

    def configured(self, settings: Mapping[str, float]) -> "Slots":
        """The same slots, whose modules are made with these settings."""
        after_activation = self.after_activation and partial(self.after_activation, **settings)
        after_convolution = self.after_convolution and partial(self.after_convolution, **settings)
        return Slots(after_activation, after_convolution)

    def activation(self, used: bool = True) -> nn.Module:
        """A module for the slot after an activation; the identity if the slot is not used."""
        return self.after_activation() if used and self.after_activation else nn.Identity()

    def convolution(self, following: nn.Conv2d | None) -> nn.Module:
        """A module for the slot after a convolution; `following` is the next convolution."""
        return self.after_convolution(following) if self.after_convolution else nn.Identity()


class ConvUnit(nn.Module):
    """Convolution, slot, BatchNorm, ReLU, slot. Empty slots are identities and do not rename any weight."""

    def __init__(self, conv: nn.Conv2d, *, relu: bool = True, drop: nn.Module | None = None) -> None:
        super().__init__()
        self.conv = conv
        self.distort: nn.Module = nn.Identity()
        self.norm = nn.BatchNorm2d(conv.out_channels)
        self.relu: nn.Module = nn.ReLU(inplace=True) if relu else nn.Identity()
        self.drop: nn.Module = drop if drop is not None else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.drop(self.relu(self.norm(self.distort(self.conv(x)))))
        return out


class DistortSlot(Protocol):
    """A part of a stage with one convolution and the slot after it."""

    conv: nn.Conv2d
    distort: nn.Module


def distort_stage(units: Sequence[DistortSlot], slots: Slots) -> None:
    """Fill the slots after the convolutions of a stage; each module is made for the convolution that follows."""
    following: list[nn.Conv2d | None] = [*[unit.conv for unit in units[1:]], None]
    for unit, next_convolution in zip(units, following, strict=True):
        unit.distort = slots.convolution(next_convolution)


def conv3x3(channels_in: int, channels_out: int, stride: int = 1) -> nn.Conv2d:
    """A 3x3 convolution with padding 1, and without bias because BatchNorm follows."""
    return nn.Conv2d(channels_in, channels_out, 3, stride=stride, padding=1, bias=False)
