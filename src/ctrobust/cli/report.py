"""`ctrobust report`: stored results as one HTML page, made without data sets, weights or torch."""

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from ctrobust.cli.console import messages, print_line, spinner
from ctrobust.errors import InputError

REPORT_EXAMPLE = "Example: ctrobust report runs/demo -o report.html"
PROBLEMS_SHOWN = 5


def report(
    paths: Annotated[list[Path], typer.Argument(help="Run directories, or directories that contain them.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file to write.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="Title of the page.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is not a report.")] = False,
) -> None:
    """Make one self-contained HTML page of stored results: a summary in words, tables, charts, and every spec."""
    if title is not None and not title.strip():
        raise InputError("--title is empty; leave it out to have one made")
    make_report(paths, out, title, force=force)


def make_report(paths: list[Path], out: Path, title: str | None = None, *, force: bool = False) -> None:
    """Write the page and print where it is."""
    from ctrobust.reporting.page import check_target, make_page, write_page  # imported here because altair loads slowly

    check_target(out, force=force)
    with spinner("making the report"):
        page = make_page(paths, title)
        write_page(page, out)
    for problem in page.problems[:PROBLEMS_SHOWN]:
        messages.print(f"warning: left out of the report: {problem}", markup=False, soft_wrap=True)
    if (more := len(page.problems) - PROBLEMS_SHOWN) > 0:
        messages.print(f"warning: {more} more files are left out; the report names them", markup=False, soft_wrap=True)
    size = out.stat().st_size / 1e6
    print_line(f"report: {out} ({size:.1f} MB, {page.runs} runs, {page.evaluations} evaluations); open it in a browser")


def report_command(path: Path) -> str:
    """The command that makes the page of a run, or of all runs beside it."""
    return shlex.join(["ctrobust", "report", os.fspath(path), "-o", "report.html"])
