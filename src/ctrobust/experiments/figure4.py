"""Figure 4: ten methods under six attacks, VGG16 on CIFAR-10."""

from dataclasses import replace

from ctrobust.experiments.attack_jobs import attack_footnotes
from ctrobust.experiments.cell import CellName
from ctrobust.experiments.figure import Figure
from ctrobust.experiments.natural_runs import TEN_METHODS, natural_footnotes
from ctrobust.experiments.presets import Preset
from ctrobust.experiments.robustness_curves import (
    LAPTOP_STRENGTHS,
    curve_panel,
    highest_everywhere,
    panel_title,
)
from ctrobust.experiments.statements import Similar, Statement

ATTACKS_DRAWN = ("FGSM", "PGD", "APGD", "CW", "Square", "AA")

OTHER_METHODS = tuple(method for method in TEN_METHODS if method != "MDL")

BASICALLY_THE_SAME = 10.0
"""How many points apart the other methods may be; the paper prints no number."""


def figure4(preset: Preset) -> Figure:
    figure = Figure(
        name="figure4",
        preset=preset.name,
        title="Accuracy (%) of ten regularization methods under more attacks of increasing strength, VGG16 on CIFAR10",
        panels=tuple(curve_panel(preset, TEN_METHODS, ("vgg16",), "cifar10", attack) for attack in ATTACKS_DRAWN),
        footnotes=(
            "The schedule is not stated: Cyclic, seed 0. CW is CW-inf in the form of ART up to 1.8.1, 10 iterations.",
            *attack_footnotes(preset),
            *(
                (f"Laptop: attacks other than FGSM and PGD at {', '.join(LAPTOP_STRENGTHS)} only.",)
                if preset.name == "laptop"
                else ()
            ),
            *natural_footnotes(preset, {"vgg16"}),
        ),
    )
    above = highest_everywhere(figure, "MDL", OTHER_METHODS, without=(panel_title("cifar10", "AA"),))
    return replace(figure, statements=(*above, *_similar(figure)))


def _similar(figure: Figure) -> tuple[Statement, ...]:
    found = []
    for panel in figure.panels:
        lines = [line for line in panel.series if not line.label.endswith(" MDL")]
        columns = [point.cell.column for point in lines[0].points]
        found.append(
            Statement(
                f"The robustness of the methods other than MDL is basically the same ({panel.title}).",
                tuple(
                    Similar(tuple(CellName(figure.name, line.label, column) for line in lines), BASICALLY_THE_SAME)
                    for column in columns
                ),
                agrees=None,
                remark=f"Read as at most {BASICALLY_THE_SAME:g} points apart.",
            )
        )
    return tuple(found)
