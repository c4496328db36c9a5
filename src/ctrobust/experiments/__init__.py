"""The paper's tables and figures as data: cells with their jobs, metrics and printed values, under three presets.

Tables and figures are numbered in the order of the paper's source.
"""

from collections.abc import Callable

from ctrobust.errors import InputError, closest
from ctrobust.experiments.cell import METRICS, Cell, CellName, MeanSpread, Metric
from ctrobust.experiments.disagreements import DISAGREEMENTS, MISPRINTS, Disagreement, disagreements
from ctrobust.experiments.figure import Figure, Panel, Point, Series
from ctrobust.experiments.figure1 import figure1
from ctrobust.experiments.figure2 import figure2
from ctrobust.experiments.figure3 import figure3
from ctrobust.experiments.figure4 import figure4
from ctrobust.experiments.figure5 import figure5
from ctrobust.experiments.figure6 import figure6
from ctrobust.experiments.figure7 import figure7
from ctrobust.experiments.presets import PRESETS, Preset
from ctrobust.experiments.ranks import average_ranks, ranks
from ctrobust.experiments.selection import select_cells
from ctrobust.experiments.statement_results import StatementResult, check_statements
from ctrobust.experiments.statements import Check, Statement
from ctrobust.experiments.sweep_table import sweep_table
from ctrobust.experiments.table import Column, Row, Table
from ctrobust.experiments.table1 import table1
from ctrobust.experiments.table2 import table2
from ctrobust.experiments.table3 import table3
from ctrobust.experiments.table4 import table4
from ctrobust.experiments.table5 import table5
from ctrobust.experiments.table6 import table6
from ctrobust.experiments.table7 import table7
from ctrobust.experiments.table8 import table8
from ctrobust.experiments.table9 import table9

EXPERIMENTS: dict[str, Callable[[Preset], Table | Figure]] = {
    "table1": table1,
    "table2": table2,
    "table3": table3,
    "table4": table4,
    "table5": table5,
    "table6": table6,
    "table7": table7,
    "table8": table8,
    "table9": table9,
    "figure1": figure1,
    "figure2": figure2,
    "figure3": figure3,
    "figure4": figure4,
    "figure5": figure5,
    "figure6": figure6,
    "figure7": figure7,
}
"""Name -> function that plans the table or figure under a preset."""

__all__ = [
    "DISAGREEMENTS", "EXPERIMENTS", "METRICS", "MISPRINTS", "PRESETS", "Cell", "CellName", "Check", "Column",
    "Disagreement", "Figure", "MeanSpread", "Metric", "Panel", "Point", "Preset", "Row", "Series", "Statement",
    "StatementResult", "Table", "average_ranks", "check_statements", "disagreements", "experiment",
    "ranks", "select_cells", "sweep_table",
]  # fmt: skip


def experiment(name: str, preset: str = "paper") -> Table | Figure:
    """Plan a table or figure of the paper.

    Example:
        >>> table = experiment("table1", "paper")
        >>> len(table.rows), len(table.columns), table.cells[0].paper
        (8, 13, 99.56)
    """
    if name not in EXPERIMENTS:
        raise InputError(f"unknown experiment {name!r}; {closest(name, list(EXPERIMENTS))}")
    if preset not in PRESETS:
        raise InputError(f"unknown preset {preset!r}; {closest(preset, list(PRESETS))}")
    return EXPERIMENTS[name](PRESETS[preset])
