"""The paper's network for MNIST and Fashion-MNIST."""

from torch import Tensor, nn
from torch.nn.functional import max_pool2d, relu

from ctrobust.errors import InputError
from ctrobust.models.slots import Slots


class MNISTNetBody(nn.Module):
    """Valid 3x3 convolutions of 32, 32, pool, 64, 64, pool: (N, in_channels, 28, 28) -> (N, 1024) at width 64.

    Max-pooling is applied before the ReLU, which then works on a quarter of the values: the two commute, also with
    DropBlock's mask, which is not negative.
    """

    def __init__(self, in_channels: int, width: int, slots: Slots) -> None:
        super().__init__()
        narrow = width // 2
        self.conv1 = nn.Conv2d(in_channels, narrow, 3)
        self.conv2 = nn.Conv2d(narrow, narrow, 3)
        self.conv3 = nn.Conv2d(narrow, width, 3)
        self.conv4 = nn.Conv2d(width, width, 3)
        self.distort3 = slots.convolution(self.conv4)
        self.distort4 = slots.convolution(None)
        self.drop4 = slots.activation()

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-2:] != (28, 28):
            raise InputError(
                f"mnistnet takes images of 28x28; got {x.shape[-2]}x{x.shape[-1]}. resnet18 takes any size"
            )
        x = relu(self.conv1(x), inplace=True)
        x = relu(max_pool2d(self.conv2(x), 2), inplace=True)
        x = relu(self.distort3(self.conv3(x)), inplace=True)
        x = relu(max_pool2d(self.drop4(self.distort4(self.conv4(x))), 2), inplace=True)
        return x.flatten(1)


def mnistnet(in_channels: int, num_classes: int, width: int, slots: Slots) -> tuple[nn.Module, nn.Sequential]:
    """The body and the head 1024-200-200-C; 312,202 parameters with 1 channel, 10 classes, width 64."""
    head = nn.Sequential(
        nn.Linear(16 * width, 200),
        nn.ReLU(inplace=True),
        nn.Linear(200, 200),
        nn.ReLU(inplace=True),
        nn.Linear(200, num_classes),
    )
    return MNISTNetBody(in_channels, width, slots), head
