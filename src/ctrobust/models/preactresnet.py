"""Pre-activation ResNet-18 for small images, the usual network of Fast-AT: BatchNorm and ReLU before convolutions."""

from torch import Tensor, nn
from torch.nn.functional import relu

from ctrobust.models.slots import Slots, conv3x3, distort_stage


class PreActivation(nn.Module):
    """BatchNorm, ReLU, slot."""

    def __init__(self, channels: int, drop: nn.Module) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.drop = drop

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.drop(relu(self.norm(x), inplace=True))
        return out


class SlottedConvolution(nn.Module):
    """A 3x3 convolution, and the slot after it."""

    distort: nn.Module

    def __init__(self, channels_in: int, channels: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = conv3x3(channels_in, channels, stride)
        self.distort = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.distort(self.conv(x))
        return out


class PreActBlock(nn.Module):
    """Two pre-activated 3x3 convolutions and a shortcut; the first pre-activation feeds the projection too.

    The projection has no BatchNorm. The first pre-activation of a layer is of the map of the layer before.
    """

    def __init__(self, channels_in: int, channels: int, stride: int, first_drop: nn.Module, drop: nn.Module) -> None:
        super().__init__()
        self.first = PreActivation(channels_in, first_drop)
        self.unit1 = SlottedConvolution(channels_in, channels, stride)
        self.second = PreActivation(channels, drop)
        self.unit2 = SlottedConvolution(channels, channels)
        self.projection: nn.Conv2d | None = None
        if stride != 1 or channels_in != channels:
            self.projection = nn.Conv2d(channels_in, channels, 1, stride=stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        activated = self.first(x)
        shortcut = x if self.projection is None else self.projection(activated)
        out: Tensor = self.unit2(self.second(self.unit1(activated)))
        return out.add_(shortcut)


class PreActResNetBody(nn.Module):
    """Stem, four layers of two blocks, BatchNorm, ReLU, global average: (N, in_channels, H, W) -> (N, 8 width).

    DropBlock's slots are after the activations of maps that layers 3 and 4 compute, as in resnet18.
    """

    def __init__(self, in_channels: int, width: int, slots: Slots) -> None:
        super().__init__()
        self.stem = conv3x3(in_channels, width)
        layers, channels = [], width
        for number in range(1, 5):
            layer_width = width * 2 ** (number - 1)
            layers.append(
                nn.Sequential(
                    PreActBlock(
                        channels, layer_width, 1 if number == 1 else 2,
                        slots.activation(number == 4), slots.activation(number in (3, 4)),
                    ),
                    PreActBlock(
                        layer_width, layer_width, 1,
                        slots.activation(number in (3, 4)), slots.activation(number in (3, 4)),
                    ),
                )
            )  # fmt: skip
            channels = layer_width
        distort_stage([unit for unit in layers[-1].modules() if isinstance(unit, SlottedConvolution)], slots)
        self.layers = nn.Sequential(*layers)
        self.last = PreActivation(channels, slots.activation())

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.last(self.layers(self.stem(x))).mean((2, 3))
        return features


def preactresnet18(in_channels: int, num_classes: int, width: int, slots: Slots) -> tuple[nn.Module, nn.Sequential]:
    """Pre-activated blocks, two per layer; 11,172,170 parameters with 3 channels, 10 classes, width 64."""
    return PreActResNetBody(in_channels, width, slots), nn.Sequential(nn.Linear(8 * width, num_classes))
