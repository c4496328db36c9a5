"""Reporting: stored records and outcomes become tables and figures. Runs no model, no torch.

Charts are in `ctrobust.reporting.figures`, which takes a part of a second to import.
"""

from ctrobust.reporting.cell_values import CellValue, cell_values
from ctrobust.reporting.renderings import RENDERERS, render

__all__ = ["RENDERERS", "CellValue", "cell_values", "render"]
