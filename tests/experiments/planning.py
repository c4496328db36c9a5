"""The paper's experiments, planned once for all tests."""

import functools

from ctrobust.experiments import EXPERIMENTS, CellName, Figure, MeanSpread, Table, experiment


@functools.cache
def planned(name: str, preset: str = "paper") -> Table | Figure:
    return experiment(name, preset)


def table(name: str, preset: str = "paper") -> Table:
    found = planned(name, preset)
    assert isinstance(found, Table)
    return found


def figure(name: str, preset: str = "paper") -> Figure:
    found = planned(name, preset)
    assert isinstance(found, Figure)
    return found


@functools.cache
def printed_values() -> dict[CellName, float]:
    """All printed values by the names of their cells; of a mean with a spread, the mean."""
    values = {}
    for name in EXPERIMENTS:
        for cell_name, cell in planned(name).names().items():
            paper = cell.paper
            if paper is not None:
                values[cell_name] = paper.value if isinstance(paper, MeanSpread) else paper
    return values
