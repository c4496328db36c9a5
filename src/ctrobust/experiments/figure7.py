"""Figure 7: attack success rate of PGD with SCE by gamma, on the five models of table 7."""

from ctrobust.experiments.canonical_attacks import sce_loss
from ctrobust.experiments.cell import Cell, CellName
from ctrobust.experiments.figure import Figure, Panel, Point, Series, point_name
from ctrobust.experiments.presets import Preset
from ctrobust.experiments.statements import Monotone, Statement
from ctrobust.experiments.table7 import MODELS_IN_TABLE, loss_attack, table7_footnotes

GAMMAS_DRAWN = (0, 1, 2, 3, 4, 5)
SMOKE_GAMMAS = (0, 5)

PANEL = "PGD-SCE"


def figure7(preset: Preset) -> Figure:
    gammas = SMOKE_GAMMAS if preset.digits else GAMMAS_DRAWN
    series = []
    for model in MODELS_IN_TABLE:
        points = [
            Point(
                float(gamma),
                Cell(
                    model,
                    point_name(PANEL, str(gamma)),
                    "attack_success_rate",
                    (loss_attack(preset, model, "PGD", sce_loss(gamma)),),
                ),
            )
            for gamma in gammas
        ]
        series.append(Series(model, tuple(points)))
    return Figure(
        name="figure7",
        preset=preset.name,
        title="Attack success rate (%) of PGD with SCE by gamma on naturally and adversarially trained models",
        panels=(Panel(PANEL, "gamma", "attack success rate (%)", tuple(series)),),
        footnotes=("The paper does not list its values of gamma: here 0 to 5.", *table7_footnotes(preset)),
        statements=tuple(
            Statement(
                f"The success rate of PGD with SCE rises slowly and linearly with gamma ({model}).",
                (Monotone(tuple(CellName("figure7", model, point_name(PANEL, str(gamma))) for gamma in gammas)),),
                agrees=None,
                remark="Read as rising from each value of gamma to the next.",
            )
            for model in MODELS_IN_TABLE
        ),
    )
