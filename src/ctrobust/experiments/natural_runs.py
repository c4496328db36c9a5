"""The trainings of natural training: a method on a data set with a network and a schedule."""

from typing import Any, NamedTuple

from ctrobust.experiments.presets import Preset, data_name, model_fields
from ctrobust.specs import TrainSpec, train_spec


class Setting(NamedTuple):
    """One combination of network, schedule and data set."""

    network: str
    schedule: str
    data: str


ETA = {"mnist": 100.0, "fashion-mnist": 90.0, "cifar10": 100.0, "cifar100": 70.0}
"""Data set -> the percentile eta of MDL's mask in the tables."""

METHOD_NAMES = {
    "DO": "dropout",
    "FL": "focal",
    "DB": "dropblock",
    "MSD": "multi-sample-dropout",
    "Disout": "disout",
    "LR": "label-relaxation",
    "MDL": "mdl",
    "MDL-PCC": "mdl-pcc",
    "DC": "dropconnect",
    "DC+MDL": "dropconnect+mdl",
    "LS": "label-smoothing",
    "LS+MDL": "label-smoothing+mdl",
    "OLS": "online-label-smoothing",
    "OLS+MDL": "online-label-smoothing+mdl",
}
"""The paper's abbreviation -> the method's name in specs."""

TEN_METHODS = ("DO", "FL", "DB", "MSD", "Disout", "LR", "DC", "LS", "OLS", "MDL")
"""The nine compared methods and MDL, in the order of tables 3 and 4."""

DATA_NETWORKS = {"mnist": "mnistnet", "fashion-mnist": "mnistnet", "cifar10": "vgg16", "cifar100": "vgg16"}
"""Data set -> the network where the paper does not name one."""

DATA_TITLES = {"mnist": "MNIST", "fashion-mnist": "FashionMNIST", "cifar10": "CIFAR10", "cifar100": "CIFAR100"}
NETWORK_TITLES = {"mnistnet": "MNISTNet", "vgg16": "VGG16", "resnet18": "ResNet18", "resnet50": "ResNet50"}

LEARNING_RATE = 0.01


def natural_run(preset: Preset, method: str, setting: Setting, *, eta: float | None = None, seed: int = 0) -> TrainSpec:
    """The training of a method, by the paper's abbreviation; eta None is the data set's, for methods with MDL.

    Example:
        >>> from ctrobust.experiments.presets import PRESETS
        >>> spec = natural_run(PRESETS["paper"], "MDL", Setting("mnistnet", "cyclic", "fashion-mnist"))
        >>> spec.recipe.eta, spec.epochs, spec.lr
        (90.0, 50, 0.01)
    """
    name = METHOD_NAMES[method]
    fields: dict[str, Any] = {
        "data": data_name(preset, setting.data),
        "epochs": preset.natural_epochs[setting.data],
        "method": name,
        "lr": LEARNING_RATE,
        "model": model_fields(preset, setting.network),
        "schedule": {"name": setting.schedule},
        "seed": seed,
    }
    if "mdl" in name:
        fields["recipe"] = {"eta": ETA[setting.data] if eta is None else eta}
    if preset.digits:
        fields |= {"limit": 200, "batch_size": 50}
    return train_spec(fields)


def natural_footnotes(preset: Preset, networks: set[str]) -> tuple[str, ...]:
    """The readings and the preset's changes of natural training with these networks."""
    wide = [NETWORK_TITLES[name] for name in sorted(networks - {"mnistnet"}, reverse=True)]
    found = []
    if "mnistnet" in networks:
        found.append("MNIST and Fashion-MNIST are not augmented: the paper does not state it.")
    if wide:
        found.append("CIFAR is cropped and flipped: the paper does not state it.")
    found.append("eta of MDL: 100 on MNIST, 90 on Fashion-MNIST, 100 on CIFAR-10, 70 on CIFAR-100.")
    if preset.name == "laptop" and wide:
        epochs = preset.natural_epochs["cifar10"]
        text = f"Laptop: {' and '.join(wide)} of width {preset.width} instead of 64, {epochs} epochs instead of 200"
        found.append(text + ("; MNISTNet as in the paper." if "mnistnet" in networks else "."))
    return (*found, *preset.footnotes)
