"""Committed runs as a store, and a figure whose points are evaluations of them."""

from pathlib import Path

from ctrobust.experiments import Cell, Figure, Panel, Point, Series
from ctrobust.specs import EvaluationJob
from ctrobust.store import RunDirectory, Store

RESULTS = Path(__file__).parents[2] / "results"
COMMITTED = Store("absent", (RESULTS,))

ATTACKS = {"1/255": "fgsm:eps=8/255", "8/255": "pgd:eps=8/255"}
"""The label of a point -> an attack that the committed runs were evaluated with."""


def evaluation_job(run: str, attack: str) -> EvaluationJob:
    spec = RunDirectory(RESULTS / run).read_spec()
    return EvaluationJob(training=spec, attack=attack, limit=1000, chunk=250)


def stored_figure() -> Figure:
    """Two curves of committed evaluations, one with a printed point, and a panel of which nothing is stored."""

    def panel(title: str, limit: int) -> Panel:
        curves = []
        for label, run in (("VGG16 DO", "fashion-dropout"), ("VGG16 MDL", "fashion-mdl")):
            points = []
            for place, attack in ATTACKS.items():
                job = evaluation_job(run, attack).model_copy(update={"limit": limit})
                printed = "61.92" if (label, place) == ("VGG16 MDL", "8/255") else None
                cell = Cell(label, f"{title}: {place}", "robust_accuracy", (job,), printed)
                points.append(Point(float(place.partition("/")[0]) / 255, cell))
            curves.append(Series(label, tuple(points)))
        return Panel(title, "eps", "robust accuracy (%)", tuple(curves))

    return Figure("figure9", "laptop", "Curves of committed runs", (panel("stored", 1000), panel("absent", 999)))
