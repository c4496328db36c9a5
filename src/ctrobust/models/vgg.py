"""VGG16 for images of 32x32 or larger: BatchNorm after each convolution, one linear layer."""

from torch import Tensor, nn

from ctrobust.errors import InputError
from ctrobust.models.slots import ConvUnit, Slots, distort_stage

STAGES = ((1, 1), (2, 2), (4, 4, 4), (8, 8, 8), (8, 8, 8))
"""Channels of each convolution, in units of the width."""

SMALLEST_SIDE = 32
"""The smallest side of an image of which five poolings leave a pixel."""


class VGGBody(nn.Module):
    """Five stages of 3x3 convolutions, each ended by 2x2 max-pooling: (N, in_channels, 32, 32) -> (N, 8 width).

    Images larger than 63x63 leave more than one pixel, which are averaged.
    """

    def __init__(self, in_channels: int, width: int, slots: Slots) -> None:
        super().__init__()
        stages, channels = [], in_channels
        for number, factors in enumerate(STAGES, start=1):
            units = []
            for factor in factors:
                conv = nn.Conv2d(channels, factor * width, 3, padding=1)
                units.append(ConvUnit(conv, drop=slots.activation(number in (3, 4))))
                channels = factor * width
            stages.append(nn.Sequential(*units, nn.MaxPool2d(2)))
        distort_stage(units, slots)
        self.stages = nn.Sequential(*stages)

    def forward(self, x: Tensor) -> Tensor:
        check_image_size(x.shape[-2], x.shape[-1])
        features: Tensor = self.stages(x).mean((2, 3))
        return features


def check_image_size(height: int, width: int) -> None:
    if height < SMALLEST_SIDE or width < SMALLEST_SIDE:
        raise InputError(f"vgg16 takes images of at least 32x32; got {height}x{width}. resnet18 takes any size")


def vgg16(
    in_channels: int, num_classes: int, width: int, slots: Slots, image_size: tuple[int, int] = (32, 32)
) -> tuple[nn.Module, nn.Sequential]:
    """The body and one linear layer; 14,728,266 parameters with 3 channels, 10 classes, width 64."""
    check_image_size(*image_size)
    return VGGBody(in_channels, width, slots), nn.Sequential(nn.Linear(8 * width, num_classes))
