"""`ctrobust compare`: runs on the same examples, paired, from stored outcomes alone."""

from pathlib import Path
from typing import Annotated

import typer

from ctrobust.cli.console import print_line, print_paragraph
from ctrobust.cli.show import find_runs
from ctrobust.cli.tables import print_results
from ctrobust.errors import InputError
from ctrobust.reporting.comparison_renderings import (
    COMPARISON_RENDERERS,
    comparison_heading,
    comparison_remarks,
    comparison_tables,
)
from ctrobust.reporting.run_comparison import RunComparison, compare_runs

COMPARE_EXAMPLE = "Example: ctrobust compare runs/dropout runs/mdl, or with several seeds of each"
FORMS = ("terminal", *COMPARISON_RENDERERS)


def compare(
    paths: Annotated[
        list[Path], typer.Argument(metavar="RUN RUN ...", help="Run directories, or directories that contain them.")
    ],
    form: Annotated[str, typer.Option("--render", help=f"Form of the result: {', '.join(FORMS)}.")] = "terminal",
) -> None:
    """Compare runs on the same examples: differences with intervals and McNemar's test, for every stored attack.

    The first run is the reference. Runs that differ in their seed only are pooled.
    """
    if form not in FORMS:
        raise InputError(f"--render is one of {', '.join(FORMS)}; got {form}")
    comparison = compare_runs([run for path in paths for run in find_runs(path)])
    if form == "terminal":
        _print(comparison)
    else:
        print_line(COMPARISON_RENDERERS[form](comparison).rstrip("\n"))


def _print(comparison: RunComparison) -> None:
    for line in comparison_heading(comparison):
        print_paragraph(line, "   ")
    for headers, rows in comparison_tables(comparison):
        print_results(headers, rows)
    for remark in comparison_remarks(comparison):
        print_paragraph(remark, "  ")
