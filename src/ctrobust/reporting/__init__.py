"""Reporting: stored records and outcomes become tables. Runs no model, no torch."""

from ctrobust.reporting.cell_values import CellValue, cell_values
from ctrobust.reporting.renderings import RENDERERS, render

__all__ = ["RENDERERS", "CellValue", "cell_values", "render"]
