"""`ctrobust data`: which data sets there are, and whether they are complete."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from ctrobust.cli.console import output, print_line, print_paragraph
from ctrobust.cli.options import DataRoot
from ctrobust.cli.progress import download_progress
from ctrobust.cli.signals import interruptible
from ctrobust.errors import DataError

if TYPE_CHECKING:
    from ctrobust.data.catalog import CatalogRow

data_app = typer.Typer(help="List, download and check data sets.", no_args_is_help=True)


@data_app.command("list", epilog="Example: ctrobust data list")
def list_data(data_root: DataRoot = None) -> None:
    """List the data sets, where each was found, and whether it is the published one."""
    from ctrobust import data

    data_table(data.available(data_root))


@data_app.command("fetch", epilog="Example: ctrobust data fetch fashion-mnist")
def fetch_data(
    name: Annotated[str, typer.Argument(help="Name of a data set in `ctrobust data list`.")], data_root: DataRoot = None
) -> None:
    """Download a data set, check it, and put it where it will be found."""
    from ctrobust import data

    with interruptible("an incomplete download is not kept"), download_progress("fetch", name) as progress:
        folder = data.fetch(name, data_root, progress)
    print_line(f"{name} is in {folder}")


@data_app.command("check", epilog="Example: ctrobust data check folder:photos")
def check_data(
    name: Annotated[str, typer.Argument(help="Name of a data set, folder:PATH or npz:PATH.")],
    data_root: DataRoot = None,
) -> None:
    """Read a whole data set and report what was found. The exit code is 4 if it cannot be used."""
    from ctrobust import data

    findings = data.check(name, data_root)
    for finding in findings:
        print_paragraph(f"{finding.level}: {finding.text}", "  ")
    if any(finding.level == "error" for finding in findings):
        raise typer.Exit(DataError.exit_code)


def data_table(rows: "Sequence[CatalogRow]") -> None:
    """Print one line per data set."""
    table = Table(box=box.SIMPLE_HEAD)
    for header in ("data set", "description", "found in", "verified"):
        table.add_column(header, overflow="fold", no_wrap=header == "verified")
    verified = {True: "yes", False: "unverified", None: ""}
    for row in rows:
        found = str(row.place) if row.place else "embedded" if row.splits else "" if ":" in row.name else "not found"
        table.add_row(row.name, escape(row.description), escape(found), verified[row.verified])
    output().print(table)
