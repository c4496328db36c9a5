"""`ctrobust fill`: the marked tables of a Markdown page, from stored runs."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from ctrobust.cli.console import print_line
from ctrobust.errors import InputError, JobsFailedError
from ctrobust.regular_file import read_regular_file
from ctrobust.reporting.results_page import fill_page
from ctrobust.store import Store, write_atomic

FILL_EXAMPLE = "Example: ctrobust fill docs/results.md --results results"
MOST_PAGE_BYTES = 64 << 20


def fill(
    page: Annotated[Path, typer.Argument(help="Markdown page with marked tables.")],
    results: Annotated[
        list[Path] | None, typer.Option(help="Directory of the runs. Repeatable. Default: results.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit with 6 if a table differs from the runs.")
    ] = False,
) -> None:
    """Fill the marked tables of a Markdown page with the results of stored runs."""
    folders = results or [Path("results")]
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"--results {folder}: there is no such directory")
    named = ", ".join(map(str, folders))
    try:
        text = read_regular_file(page, MOST_PAGE_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read {page}: {error}") from None
    filled = fill_page(text, Store(folders[0], tuple(folders[1:])))
    if filled == text:
        print_line(f"{page} agrees with {named}")
        return
    if check:
        command = shlex.join(["ctrobust", "fill", str(page), *(f"--results={folder}" for folder in folders)])
        raise JobsFailedError(f"{page} does not agree with {named}; run: {command}")
    write_atomic(page, filled.encode())
    print_line(f"filled {page} from {named}")
