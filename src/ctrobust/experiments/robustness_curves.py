"""Curves of robust accuracy over the strength of an attack, for figures 3, 4 and 5."""

from collections.abc import Mapping

from ctrobust.experiments.attack_jobs import attack_job
from ctrobust.experiments.canonical_attacks import strengths
from ctrobust.experiments.cell import Cell, CellName
from ctrobust.experiments.figure import Figure, Panel, Point, Series, point_name
from ctrobust.experiments.natural_runs import DATA_TITLES, NETWORK_TITLES, Setting, natural_run
from ctrobust.experiments.presets import Preset
from ctrobust.experiments.statements import Above, Statement, above_all

DATA_CURVE_NETWORKS = {
    "mnist": ("mnistnet",),
    "fashion-mnist": ("mnistnet",),
    "cifar10": ("vgg16", "resnet50"),
    "cifar100": ("vgg16", "resnet50"),
}
"""Data set -> the networks with curves on it; the text prints values of both networks on CIFAR-10."""

LAPTOP_STRENGTHS = ("2/255", "4/255", "8/255")
"""The strengths of attacks other than FGSM and PGD in preset `laptop`."""


def series_label(method: str, network: str) -> str:
    """The label of a curve.

    Example:
        >>> series_label("MDL", "vgg16")
        'VGG16 MDL'
    """
    return f"{NETWORK_TITLES[network]} {method}"


def panel_title(data: str, attack: str) -> str:
    return f"{DATA_TITLES[data]}, {attack}"


def eps_value(text: str) -> float:
    """The number of a strength's text.

    Example:
        >>> eps_value("0.1"), eps_value("51/255")
        (0.1, 0.2)
    """
    above, _, below = text.partition("/")
    return float(above) / float(below or 1)


PrintedPoints = Mapping[tuple[str, str], str]
"""The row and column of a cell -> the value that the text prints."""


def curve(preset: Preset, method: str, setting: Setting, attack: str, printed: PrintedPoints | None = None) -> Series:
    """The curve of a method; each strength is attacked independently of the others, as in the paper."""
    label, title = series_label(method, setting.network), panel_title(setting.data, attack)
    points = []
    for eps in curve_strengths(preset, setting.data, attack):
        column = point_name(title, eps)
        job = attack_job(
            preset, natural_run(preset, method, setting), attack, eps, data=setting.data, keep_probabilities=False
        )
        text = (printed or {}).get((label, column))
        points.append(Point(eps_value(eps), Cell(label, column, "robust_accuracy", (job,), text)))
    return Series(label, tuple(points))


def curve_strengths(preset: Preset, data: str, attack: str) -> tuple[str, ...]:
    """The strengths of a curve; `laptop` has three of the expensive attacks."""
    few = preset.name == "laptop" and attack not in ("FGSM", "PGD")
    return LAPTOP_STRENGTHS if few else strengths(preset, data)


def curve_panel(
    preset: Preset,
    methods: tuple[str, ...],
    networks: tuple[str, ...],
    data: str,
    attack: str,
    printed: PrintedPoints | None = None,
) -> Panel:
    """The curves of several methods and networks trained with Cyclic."""
    settings = [Setting(network, "cyclic", data) for network in networks]
    return Panel(
        panel_title(data, attack),
        "eps",
        "robust accuracy (%)",
        tuple(curve(preset, method, one, attack, printed) for one in settings for method in methods),
    )


def highest_everywhere(
    figure: Figure, method: str, others: tuple[str, ...], *, without: tuple[str, ...] = ()
) -> tuple[Statement, ...]:
    """One statement for each panel but those named: a method's curve is above the others at every strength."""
    found = []
    for panel in figure.panels:
        if panel.title in without:
            continue
        by_label = {line.label: line for line in panel.series}
        checks: list[Above] = []
        for label, line in by_label.items():
            network, _, name = label.partition(" ")
            if name != method:
                continue
            for i, point in enumerate(line.points):
                lower = [by_label[f"{network} {other}"].points[i].cell for other in others]
                checks += above_all(
                    CellName(figure.name, label, point.cell.column),
                    [CellName(figure.name, cell.row, cell.column) for cell in lower],
                )
        text = f"At every strength the accuracy of {method} is significantly greater than that of {', '.join(others)}"
        found.append(Statement(f"{text} ({panel.title}).", tuple(checks), agrees=None))
    return tuple(found)
