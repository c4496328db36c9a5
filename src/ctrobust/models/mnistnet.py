"""The paper's network for MNIST and Fashion-MNIST."""

from torch import Tensor, nn

from ctrobust.errors import InputError


class MNISTNetBody(nn.Module):
    """Valid 3x3 convolutions of 32, 32, pool, 64, 64, pool: (N, in_channels, 28, 28) -> (N, 1024) at width 64.

    Max-pooling stands before its ReLU: the two commute, and so the ReLU works on a quarter of the values.
    """

    def __init__(self, in_channels: int, width: int) -> None:
        super().__init__()
        narrow = width // 2
        self.layers = nn.Sequential(
            nn.Conv2d(in_channels, narrow, 3),
            nn.ReLU(inplace=True),
            nn.Conv2d(narrow, narrow, 3),
            nn.MaxPool2d(2),
            nn.ReLU(inplace=True),
            nn.Conv2d(narrow, width, 3),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3),
            nn.MaxPool2d(2),
            nn.ReLU(inplace=True),
            nn.Flatten(),
        )

    def forward(self, x: Tensor) -> Tensor:
        """The flattened output of the last convolution."""
        if x.shape[-2:] != (28, 28):
            raise InputError(f"mnistnet takes images of 28x28, got {x.shape[-2]}x{x.shape[-1]}")
        features: Tensor = self.layers(x)
        return features


def mnistnet(in_channels: int, num_classes: int, width: int) -> tuple[nn.Module, nn.Sequential]:
    """The body and the head 1024-200-200-C; 312,202 parameters with 1 channel, 10 classes, width 64."""
    head = nn.Sequential(
        nn.Linear(16 * width, 200),
        nn.ReLU(inplace=True),
        nn.Linear(200, 200),
        nn.ReLU(inplace=True),
        nn.Linear(200, num_classes),
    )
    return MNISTNetBody(in_channels, width), head
