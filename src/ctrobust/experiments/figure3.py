"""Figure 3: dropout, MSD and MDL under FGSM and PGD on four data sets."""

from dataclasses import replace

from ctrobust.experiments.attack_jobs import attack_footnotes
from ctrobust.experiments.figure import Figure, point_name
from ctrobust.experiments.natural_runs import natural_footnotes
from ctrobust.experiments.presets import Preset
from ctrobust.experiments.robustness_curves import (
    DATA_CURVE_NETWORKS,
    curve_panel,
    highest_everywhere,
    panel_title,
    series_label,
)
from ctrobust.experiments.statements import Statement

METHODS_DRAWN = ("DO", "MSD", "MDL")

AT_8_255 = point_name(panel_title("cifar10", "FGSM"), "8/255")

PRINTED_POINTS = {
    (series_label("MDL", "vgg16"), AT_8_255): "61.92",
    (series_label("MDL", "resnet50"), AT_8_255): "62.84",
}
"""Row and column -> the two values that the text prints."""


def figure3(preset: Preset) -> Figure:
    figure = Figure(
        name="figure3",
        preset=preset.name,
        title="Accuracy (%) of dropout, MSD and MDL under FGSM and PGD of increasing strength on four data sets",
        panels=tuple(
            curve_panel(preset, METHODS_DRAWN, networks, data, attack, PRINTED_POINTS)
            for attack in ("FGSM", "PGD")
            for data, networks in DATA_CURVE_NETWORKS.items()
        ),
        footnotes=curve_footnotes(preset),
    )
    printed = Statement(
        "Under FGSM of 8/255, VGG16 and ResNet50 with MDL keep 61.92% and 62.84% on CIFAR10, comparable with "
        "adversarial training.",
        agrees=False,
        remark="Neither is possible for 2,000 images, whose accuracies are multiples of 0.05.",
    )
    return replace(figure, statements=(*highest_everywhere(figure, "MDL", ("DO", "MSD")), printed))


def curve_footnotes(preset: Preset) -> tuple[str, ...]:
    """The readings of figures 3 and 5."""
    return (
        "Networks and schedules are not stated: MNISTNet on MNIST and Fashion-MNIST, VGG16 and ResNet50 on CIFAR, "
        "Cyclic, seed 0.",
        "PGD has 40 steps of eps/30 on MNIST, else 20 steps of eps/4.",
        *attack_footnotes(preset, fewer=False, mnistnet=True),
        *natural_footnotes(preset, {"mnistnet", "vgg16", "resnet50"}),
    )
