"""Figure 2: t-SNE of the logits of CIFAR-10's test images, with dropout and with MDL."""

from ctrobust.experiments.cell import Cell
from ctrobust.experiments.figure import Figure, Panel, Point, Series
from ctrobust.experiments.natural_runs import NETWORK_TITLES, Setting, natural_footnotes, natural_run
from ctrobust.experiments.presets import Preset
from ctrobust.experiments.statements import Statement
from ctrobust.specs import EmbeddingJob

PANELS = (("vgg16", "DO"), ("vgg16", "MDL"), ("resnet50", "DO"), ("resnet50", "MDL"))


def figure2(preset: Preset) -> Figure:
    panels = []
    for network, method in PANELS:
        job = EmbeddingJob(
            training=natural_run(preset, method, Setting(network, "cyclic", "cifar10")), limit=preset.embedded
        )
        title = f"{NETWORK_TITLES[network]}, {'dropout' if method == 'DO' else method}"
        point = Point(None, Cell(method, title, "tsne", (job,)))
        panels.append(Panel(title, "", "", (Series(method, (point,)),)))
    return Figure(
        name="figure2",
        preset=preset.name,
        title="t-SNE of the logits on CIFAR10, VGG16 and ResNet50 with dropout and with MDL",
        panels=tuple(panels),
        footnotes=(
            f"The first {preset.embedded:,} test images; the paper embeds the test set. The schedule is not stated: "
            "Cyclic.",
            *natural_footnotes(preset, {"vgg16", "resnet50"}),
        ),
        statements=(
            Statement("With dropout there are many separate small clusters, with MDL few.", agrees=None),
            Statement(
                "With MDL, misclassified images and images of low confidence lie in rays, because all their "
                "probabilities are near 1/(C-1).",
                agrees=None,
            ),
        ),
    )
