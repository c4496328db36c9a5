"""Figure 5: DropConnect with and without MDL under FGSM and PGD on four data sets."""

from dataclasses import replace

from ctrobust.experiments.figure import Figure
from ctrobust.experiments.figure3 import curve_footnotes
from ctrobust.experiments.presets import Preset
from ctrobust.experiments.robustness_curves import DATA_CURVE_NETWORKS, curve_panel, highest_everywhere


def figure5(preset: Preset) -> Figure:
    figure = Figure(
        name="figure5",
        preset=preset.name,
        title="Accuracy (%) of DropConnect with and without MDL under FGSM and PGD of increasing strength",
        panels=tuple(
            curve_panel(preset, ("DC", "DC+MDL"), networks, data, attack)
            for attack in ("FGSM", "PGD")
            for data, networks in DATA_CURVE_NETWORKS.items()
        ),
        footnotes=curve_footnotes(preset),
    )
    return replace(figure, statements=highest_everywhere(figure, "DC+MDL", ("DC",)))
