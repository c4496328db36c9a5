"""Figure 1: accuracy of MDL by eta, the percentile of its mask."""

from ctrobust.experiments.cell import Cell, CellName
from ctrobust.experiments.figure import Figure, Panel, Point, Series, point_name
from ctrobust.experiments.natural_runs import DATA_TITLES, ETA, Setting, natural_footnotes, natural_run
from ctrobust.experiments.presets import Preset
from ctrobust.experiments.statements import Statement, above_all
from ctrobust.specs import TrainingJob

ETAS = (100, 90, 80, 70)

SERIES = {
    "MC": ("mnistnet", "cyclic"),
    "MM": ("mnistnet", "multistep"),
    "VC": ("vgg16", "cyclic"),
    "VM": ("vgg16", "multistep"),
    "RC": ("resnet50", "cyclic"),
    "RM": ("resnet50", "multistep"),
}
"""The paper's abbreviation -> network and schedule."""

DATA_SERIES = {
    "mnist": ("MC", "MM"),
    "fashion-mnist": ("MC", "MM"),
    "cifar10": ("VC", "VM", "RC", "RM"),
    "cifar100": ("VC", "VM", "RC", "RM"),
}


def figure1(preset: Preset) -> Figure:
    return Figure(
        name="figure1",
        preset=preset.name,
        title="Accuracy (%) of MDL by eta, the percentile of its mask",
        panels=tuple(
            Panel(title, "eta", "accuracy (%)", tuple(_series(preset, data, title, label) for label in labels))
            for (data, labels), title in zip(DATA_SERIES.items(), DATA_TITLES.values(), strict=True)
        ),
        footnotes=(
            "The first letter of a row is its network, MNISTNet, VGG16 or ResNet50, the second its schedule, Cyclic or "
            "Multistep.",
            *natural_footnotes(preset, {network for network, _ in SERIES.values()}),
        ),
        statements=_statements(),
    )


def _series(preset: Preset, data: str, title: str, label: str) -> Series:
    setting = Setting(*SERIES[label], data)
    return Series(
        label,
        tuple(
            Point(
                float(eta),
                Cell(
                    label,
                    point_name(title, str(eta)),
                    "accuracy",
                    (TrainingJob(training=natural_run(preset, "MDL", setting, eta=float(eta))),),
                ),
            )
            for eta in ETAS
        ),
    )


def _statements() -> tuple[Statement, ...]:
    found = []
    for data, labels in DATA_SERIES.items():
        title = DATA_TITLES[data]
        for label in labels:
            cells = {eta: CellName("figure1", label, point_name(title, str(eta))) for eta in ETAS}
            found.append(
                Statement(
                    f"On {title}, eta {ETA[data]:g}, near the accuracy in percent, is the best ({label}).",
                    above_all(cells[int(ETA[data])], list(cells.values())),
                    agrees=None,
                )
            )
    return tuple(found)
