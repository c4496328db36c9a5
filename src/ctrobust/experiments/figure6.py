"""Figure 6: the number of wrong categories below thresholds that are smaller than the theoretical one."""

from ctrobust.experiments.cell import Cell, CellName
from ctrobust.experiments.figure import Figure, Panel, Point, Series, point_name
from ctrobust.experiments.natural_runs import DATA_TITLES, TEN_METHODS, natural_footnotes
from ctrobust.experiments.presets import Preset, theoretical_threshold
from ctrobust.experiments.statements import Monotone, Statement, WidensFrom
from ctrobust.experiments.table4 import clean_job

DATA_DRAWN = ("fashion-mnist", "cifar10")

FRACTIONS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
"""The empirical thresholds as fractions of the theoretical one, which the paper does not list."""

SMOKE_FRACTIONS = (1.0, 0.5)


def figure6(preset: Preset) -> Figure:
    fractions = SMOKE_FRACTIONS if preset.digits else FRACTIONS
    return Figure(
        name="figure6",
        preset=preset.name,
        title="Number of wrong categories of the test set whose probability is below an empirical CT",
        panels=tuple(
            Panel(
                DATA_TITLES[data],
                "empirical CT",
                "wrong categories below it",
                tuple(_series(preset, data, method, fractions) for method in TEN_METHODS),
            )
            for data in DATA_DRAWN
        ),
        footnotes=(
            "The paper does not list its thresholds: here 0.1 to 1 times 1/(C-1). Networks and schedule as in table 4.",
            *natural_footnotes(preset, {"mnistnet", "vgg16"}),
        ),
        statements=_statements(fractions),
    )


def _column(data: str, fraction: float) -> str:
    return point_name(DATA_TITLES[data], f"{fraction:g}/(C-1)")


def _series(preset: Preset, data: str, method: str, fractions: tuple[float, ...]) -> Series:
    job = clean_job(preset, method, data)
    points = []
    for fraction in fractions:
        threshold = theoretical_threshold(preset, data) * fraction
        points.append(
            Point(threshold, Cell(method, _column(data, fraction), "wrong_below", (job,), threshold=threshold))
        )
    return Series(method, tuple(points))


def _statements(fractions: tuple[float, ...]) -> tuple[Statement, ...]:
    found = []
    for data in DATA_DRAWN:
        lines = {
            method: tuple(CellName("figure6", method, _column(data, fraction)) for fraction in fractions)
            for method in TEN_METHODS
        }
        found.append(
            Statement(
                f"The number falls slowly as the empirical CT falls ({DATA_TITLES[data]}).",
                tuple(Monotone(line, falling=True) for line in lines.values()),
                agrees=None,
                remark="That it falls follows from its definition; the paper does not say what slowly means.",
            )
        )
        found.append(
            Statement(
                f"The lead of MDL over the other methods grows as the empirical CT falls ({DATA_TITLES[data]}).",
                tuple(WidensFrom(lines["MDL"], line) for method, line in lines.items() if method != "MDL"),
                agrees=None,
            )
        )
    return tuple(found)
