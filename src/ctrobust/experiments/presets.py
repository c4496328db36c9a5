"""Presets: the sizes at which the experiments are planned.

`paper` has the paper's settings. `laptop` has the same data sized for two CPU cores; its runs of MNISTNet are those of
`paper`. `smoke` takes seconds on the embedded digits, for tests.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """The sizes of one preset.

    Attributes:
        name: "paper", "laptop" or "smoke".
        width: width of VGG16, ResNet18 and ResNet50; MNISTNet has the paper's except in `smoke`.
        natural_epochs: data set -> epochs of natural training.
        adversarial_epochs: recipe -> epochs where the paper trains 50, or 200 for TRADES.
        white_box: number of attacked test images, for networks other than MNISTNet.
        black_box: the same for Square and AutoAttack.
        embedded: number of test images in a t-SNE embedding.
        validation: training images held out in adversarial training, for a comparison of last and best weights.
        fast_step: step size of Fast-AT; None is the paper's 10/255.
        digits: whether the embedded digits replace every data set, and MNISTNet every network but ResNet50.
        footnotes: how the preset differs from the paper, for all tables and figures.
    """

    name: str
    width: int
    natural_epochs: Mapping[str, int]
    adversarial_epochs: Mapping[str, int]
    white_box: int
    black_box: int
    embedded: int
    validation: int = 0
    fast_step: float | None = None
    digits: bool = False
    footnotes: tuple[str, ...] = ()

    @property
    def reduced(self) -> bool:
        """Whether networks other than MNISTNet differ from the paper's."""
        return self.name != "paper"


PRESETS: dict[str, Preset] = {
    "paper": Preset(
        name="paper",
        width=64,
        natural_epochs={"mnist": 20, "fashion-mnist": 50, "cifar10": 200, "cifar100": 200},
        adversarial_epochs={"fast": 50, "free": 50, "madry": 50, "trades": 200},
        white_box=2000,
        black_box=1000,
        embedded=10_000,
    ),
    "laptop": Preset(
        name="laptop",
        width=16,
        natural_epochs={"mnist": 20, "fashion-mnist": 50, "cifar10": 30, "cifar100": 30},
        adversarial_epochs={"fast": 15, "free": 5, "madry": 10, "trades": 8},
        white_box=1000,
        black_box=200,
        embedded=2000,
        validation=1000,
        fast_step=8 / 255,
    ),
    "smoke": Preset(
        name="smoke",
        width=2,
        natural_epochs={"mnist": 1, "fashion-mnist": 1, "cifar10": 1, "cifar100": 1},
        adversarial_epochs={"fast": 1, "free": 1, "madry": 1, "trades": 1},
        white_box=20,
        black_box=2,
        embedded=40,
        digits=True,
        footnotes=(
            "Smoke: every data set is 200 images of digits, every network small, every training 1 epoch, every attack "
            "short; the values mean nothing.",
        ),
    ),
}
"""Name -> preset."""

PAPER_EPOCHS = {"fast": 50, "free": 50, "madry": 50, "trades": 200}
"""Recipe -> the paper's usual number of epochs."""

CLASSES = {"digits": 10, "mnist": 10, "fashion-mnist": 10, "cifar10": 10, "cifar100": 100}
"""Data set -> number of classes."""

SMOKE_MODELS: dict[str, dict[str, str | int]] = {
    "mnistnet": {"name": "mnistnet", "width": 4},
    "vgg16": {"name": "mnistnet", "width": 4},
    "resnet18": {"name": "mnistnet", "width": 4},
    "resnet50": {"name": "resnet50", "width": 2},
}
"""Network of the paper -> its substitute on 28x28 images; VGG16 needs 32x32 images."""


def data_name(preset: Preset, data: str) -> str:
    """The data set that a preset takes for one of the paper."""
    return "digits" if preset.digits else data


def theoretical_threshold(preset: Preset, data: str) -> float:
    """The theoretical confidence threshold 1/(C-1)."""
    return 1 / (CLASSES[data_name(preset, data)] - 1)


def model_fields(preset: Preset, network: str) -> dict[str, str | int]:
    """The fields of the model's spec for a network of the paper."""
    if preset.digits:
        return dict(SMOKE_MODELS[network])
    return {"name": network} if network == "mnistnet" else {"name": network, "width": preset.width}
