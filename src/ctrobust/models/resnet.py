"""ResNets for small images: a 3x3 stem of stride 1, no pooling except the global average."""

from torch import Tensor, nn
from torch.nn.functional import relu

from ctrobust.models.slots import ConvUnit, Slots, conv3x3, distort_stage


class Block(nn.Module):
    """A residual block: two 3x3 convolutions, or a bottleneck of 1x1, 3x3 and 1x1 with four times the channels."""

    def __init__(self, channels_in: int, channels: int, stride: int, *, bottleneck: bool, slots: Slots | None) -> None:
        super().__init__()
        channels_out = 4 * channels if bottleneck else channels
        slots = slots or Slots()
        if bottleneck:
            convs = [
                nn.Conv2d(channels_in, channels, 1, bias=False),
                conv3x3(channels, channels, stride),
                nn.Conv2d(channels, channels_out, 1, bias=False),
            ]
        else:
            convs = [conv3x3(channels_in, channels, stride), conv3x3(channels, channels)]
        units = [ConvUnit(conv, drop=slots.activation()) for conv in convs[:-1]]
        self.units = nn.Sequential(*units, ConvUnit(convs[-1], relu=False))
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels_out:
            projection = nn.Conv2d(channels_in, channels_out, 1, stride=stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(channels_out))
        self.drop = slots.activation()

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.drop(relu(self.units(x).add_(self.shortcut(x)), inplace=True))
        return out


class ResNetBody(nn.Module):
    """Stem, four layers of blocks, global average: (N, in_channels, H, W) -> (N, 8 width), or 32 width."""

    def __init__(
        self, in_channels: int, width: int, blocks: tuple[int, ...], slots: Slots, *, bottleneck: bool
    ) -> None:
        super().__init__()
        self.stem = ConvUnit(conv3x3(in_channels, width))
        layers, channels = [], width
        for number, count in enumerate(blocks, start=1):
            layer_width = width * 2 ** (number - 1)
            layer = []
            for position in range(count):
                stride = 2 if number > 1 and position == 0 else 1
                block_slots = slots if number in (3, 4) else None
                layer.append(Block(channels, layer_width, stride, bottleneck=bottleneck, slots=block_slots))
                channels = 4 * layer_width if bottleneck else layer_width
            layers.append(nn.Sequential(*layer))
        distort_stage([unit for unit in layers[-1].modules() if isinstance(unit, ConvUnit)], slots)
        self.layers = nn.Sequential(*layers)
        self.out_features = channels

    def forward(self, x: Tensor) -> Tensor:
        features: Tensor = self.layers(self.stem(x)).mean((2, 3))
        return features


def resnet18(in_channels: int, num_classes: int, width: int, slots: Slots) -> tuple[nn.Module, nn.Sequential]:
    """Two blocks per layer; 11,173,962 parameters with 3 channels, 10 classes, width 64."""
    body = ResNetBody(in_channels, width, (2, 2, 2, 2), slots, bottleneck=False)
    return body, nn.Sequential(nn.Linear(body.out_features, num_classes))


def resnet50(in_channels: int, num_classes: int, width: int, slots: Slots) -> tuple[nn.Module, nn.Sequential]:
    """Bottlenecks, 3, 4, 6 and 3 per layer; 23,520,842 parameters with 3 channels, 10 classes, width 64."""
    body = ResNetBody(in_channels, width, (3, 4, 6, 3), slots, bottleneck=True)
    return body, nn.Sequential(nn.Linear(body.out_features, num_classes))
