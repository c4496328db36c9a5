"""Renderings of tables and figures on standard output, and charts in files."""

from collections.abc import Collection, Sequence
from pathlib import Path

from ctrobust.cli.console import messages, output, print_line
from ctrobust.errors import InputError
from ctrobust.experiments import Figure, Table
from ctrobust.reporting import render
from ctrobust.specs import Job
from ctrobust.store import JobIndex, Store

PIPE_WIDTH = 80
"""The least width of a table, and its width in a pipe or file."""


def check_figures(wanted: Sequence[Table | Figure], directory: Path | None) -> None:
    """Refuse a directory for figures where no figure is asked for, before anything runs."""
    if directory is not None and not any(isinstance(one, Figure) for one in wanted):
        raise InputError(f"--figures is for figures; {', '.join(one.name for one in wanted)} has none")


def print_renderings(
    wanted: Sequence[Table | Figure], runs: Store, form: str, directory: Path | None, failed: Collection[Job]
) -> None:
    """Print each table and figure, mark the cells of failed jobs, and write charts where a directory is given."""
    index, console = JobIndex(runs), output()
    width = max(console.width, PIPE_WIDTH) if console.is_terminal else PIPE_WIDTH
    for one in wanted:
        text = render(one, index, form, width=width, failed=failed)
        print_line(text.rstrip("\n") + ("\n" if form != "csv" else ""))
    if directory is None:
        return
    from ctrobust.reporting.figures import write_figures  # imported here because altair takes a while to load

    for file in write_figures(wanted, index, directory, failed):
        messages.print(f"wrote {file}", markup=False, soft_wrap=True)
