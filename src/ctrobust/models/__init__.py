"""Networks by name, each a Classifier that takes images in [0, 1]."""

import inspect
from collections.abc import Callable, Sequence
from functools import partial

from torch import nn

from ctrobust.errors import InputError, closest
from ctrobust.models.black_box import BlackBox
from ctrobust.models.classifier import Classifier, Normalize
from ctrobust.models.head_split import split
from ctrobust.models.memory import check_memory
from ctrobust.models.mnistnet import mnistnet
from ctrobust.models.preactresnet import preactresnet18
from ctrobust.models.resnet import resnet18, resnet50
from ctrobust.models.slots import Slots
from ctrobust.models.user_model import UserModel, user_model
from ctrobust.models.vgg import vgg16
from ctrobust.models.weights import WeightsFile, build_from_spec, load, save_weights, weights_path
from ctrobust.regularizers import HEAD_NOISE, Disout, DropBlock
from ctrobust.specs import is_factory

MODELS: dict[str, Callable[..., tuple[nn.Module, nn.Sequential]]] = {
    "mnistnet": mnistnet,
    "vgg16": vgg16,
    "resnet18": resnet18,
    "resnet50": resnet50,
    "preactresnet18": preactresnet18,
}
"""Each takes in_channels, num_classes, width and slots, and `image_size` too if it does not take images of any size."""

MAPS: dict[str, Slots] = {
    "none": Slots(),
    "dropblock": Slots(after_activation=DropBlock),
    "disout": Slots(after_convolution=Disout),
}
"""Regularizers of the feature maps, by name."""

__all__ = [
    "MAPS", "MODELS", "BlackBox", "Classifier", "Normalize", "UserModel", "WeightsFile", "build", "build_from_spec",
    "is_factory", "load", "save_weights", "split", "user_model", "weights_path",
]  # fmt: skip


def build(
    name: str,
    num_classes: int,
    in_channels: int,
    width: int = 64,
    *,
    image_size: int | tuple[int, int] | None = None,
    noise: str = "dropout",
    drop: float = 0.5,
    maps: str = "none",
    maps_drop: float | None = None,
    maps_block: int | None = None,
    maps_alpha: float | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> Classifier:
    """Build a freshly initialized network.

    Args:
        name: a key of `MODELS`.
        num_classes: C, at least 2.
        in_channels: number of channels of the images.
        width: scales the channels; 64 is the paper's.
        image_size: the side of the images, or height and width, to which mnistnet's head is adapted; None is 28 for
            mnistnet. vgg16 takes images of at least 32x32, the others images of any size.
        noise: the regularizer before the head, active in training: a key of `HEAD_NOISE`, or "none".
        drop: the drop rate of `noise`.
        maps: the regularizer of the feature maps, active in training: a key of `MAPS`.
        maps_drop: the share of the maps that `maps` covers at the end of training; None is 0.1 for dropblock, 0.09 for
            disout.
        maps_block: the side of its blocks; None is 3 for dropblock, 6 for disout.
        maps_alpha: the strength of disout; None is 5.
        mean: mean per channel for the normalization; 0 by default.
        std: standard deviation per channel for the normalization; 1 by default.

    Example:
        >>> model = build("mnistnet", num_classes=10, in_channels=1)
        >>> sum(p.numel() for p in model.parameters())
        312202
    """
    if name not in MODELS:
        raise InputError(f"unknown model {name!r}; {closest(name, MODELS)}")
    if noise not in (*HEAD_NOISE, "none"):
        raise InputError(f"unknown noise {noise!r}; {closest(noise, (*HEAD_NOISE, 'none'))}")
    if maps not in MAPS:
        raise InputError(f"unknown maps {maps!r}; {closest(maps, MAPS)}")
    for value, label, least in ((num_classes, "num_classes", 2), (in_channels, "in_channels", 1), (width, "width", 2)):
        if value < least:
            raise InputError(f"{label} must be at least {least}; got {value}")
    slots = MAPS[maps].configured(_map_settings(maps, maps_drop, maps_block, maps_alpha))
    network = MODELS[name]
    if image_size is not None and "image_size" in inspect.signature(network).parameters:
        size = (image_size, image_size) if isinstance(image_size, int) else image_size
        network = partial(network, image_size=size)
    make = partial(network, in_channels, num_classes, width, slots)
    check_memory(make, f"{name} of width {width} with {num_classes} classes")
    body, head = make()
    return Classifier(
        body,
        head,
        num_classes=num_classes,
        mean=mean if mean is not None else (0.0,) * in_channels,
        std=std if std is not None else (1.0,) * in_channels,
        noise=None if noise == "none" else HEAD_NOISE[noise](drop),
    )


def _map_settings(maps: str, drop: float | None, block: int | None, alpha: float | None) -> dict[str, float]:
    """The settings that are given for the regularizer of the feature maps, by the name of its argument."""
    if maps == "none" and not (drop is block is alpha is None):
        raise InputError("maps_drop, maps_block and maps_alpha need maps 'dropblock' or 'disout'; got 'none'")
    if maps != "disout" and alpha is not None:
        raise InputError(f"maps_alpha needs maps 'disout'; got {maps!r}")
    if block is not None and block < 1:
        raise InputError(f"maps_block must be at least 1; got {block}")
    settings = {"drop": drop, "block": block, "alpha": alpha}
    return {key: value for key, value in settings.items() if value is not None}
