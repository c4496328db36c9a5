"""Options of commands that plan, run and render experiments."""

from pathlib import Path
from typing import Annotated

import typer

from ctrobust.reporting import RENDERERS

StoreRoot = Annotated[Path, typer.Option("--store", help="Directory of the runs.")]
ReadOnlyStores = Annotated[
    list[Path] | None, typer.Option("--results", help="Further directories with runs, which are only read. Repeatable.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan and run nothing.")]
NoRun = Annotated[bool, typer.Option("--no-run", help="Render what is stored and run nothing.")]
RenderForm = Annotated[str, typer.Option("--render", help=f"Form of the result: {', '.join(RENDERERS)}.")]
PlanAsJson = Annotated[bool, typer.Option("--json", help="With --dry-run, print the plan as JSON.")]
