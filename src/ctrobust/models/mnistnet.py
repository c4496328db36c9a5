"""The paper's network for MNIST and Fashion-MNIST."""

from torch import Tensor, nn
from torch.nn.functional import max_pool2d, relu

from ctrobust.errors import InputError
from ctrobust.models.slots import Slots

NATIVE_SIZE = (28, 28)
"""The paper's image size."""

SMALLEST_SIDE = 16
"""The smallest side of an image of which the last pooling leaves a pixel."""


def pooled_side(side: int) -> int:
    """Side of the last feature map for images of this side.

    Example:
        >>> pooled_side(28), pooled_side(32), pooled_side(16), pooled_side(15)
        (4, 5, 1, 0)
    """
    return ((side - 4) // 2 - 4) // 2


class MNISTNetBody(nn.Module):
    """Valid 3x3 convolutions of 32, 32, pool, 64, 64, pool: (N, in_channels, 28, 28) -> (N, 1024) at width 64.

    Max-pooling is applied before the ReLU, which then works on a quarter of the values: the two commute, also with
    DropBlock's mask, which is not negative.
    """

    def __init__(self, in_channels: int, width: int, slots: Slots, image_size: tuple[int, int]) -> None:
        super().__init__()
        self.image_size = image_size
        narrow = width // 2
        self.conv1 = nn.Conv2d(in_channels, narrow, 3)
        self.conv2 = nn.Conv2d(narrow, narrow, 3)
        self.conv3 = nn.Conv2d(narrow, width, 3)
        self.conv4 = nn.Conv2d(width, width, 3)
        self.distort3 = slots.convolution(self.conv4)
        self.distort4 = slots.convolution(None)
        self.drop4 = slots.activation()

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-2:] != self.image_size:
            height, width = self.image_size
            raise InputError(
                f"mnistnet takes images of {height}x{width}; got {x.shape[-2]}x{x.shape[-1]}. The size is an argument "
                "when it is built; resnet18 takes any size"
            )
        x = relu(self.conv1(x), inplace=True)
        x = relu(max_pool2d(self.conv2(x), 2), inplace=True)
        x = relu(self.distort3(self.conv3(x)), inplace=True)
        x = relu(max_pool2d(self.drop4(self.distort4(self.conv4(x))), 2), inplace=True)
        return x.flatten(1)


def mnistnet(
    in_channels: int, num_classes: int, width: int, slots: Slots, image_size: tuple[int, int] = NATIVE_SIZE
) -> tuple[nn.Module, nn.Sequential]:
    """The body and the head 1024-200-200-C; 312,202 parameters with 1 channel, 10 classes, width 64.

    For images other than 28x28 the head's first layer takes as many features as the last pooling leaves.
    """
    if min(image_size) < SMALLEST_SIDE:
        raise InputError(
            f"mnistnet takes images of at least {SMALLEST_SIDE}x{SMALLEST_SIDE}; got {image_size[0]}x{image_size[1]}. "
            "resnet18 takes any size"
        )
    head = nn.Sequential(
        nn.Linear(pooled_side(image_size[0]) * pooled_side(image_size[1]) * width, 200),
        nn.ReLU(inplace=True),
        nn.Linear(200, 200),
        nn.ReLU(inplace=True),
        nn.Linear(200, num_classes),
    )
    return MNISTNetBody(in_channels, width, slots, image_size), head
