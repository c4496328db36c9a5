"""`ctrobust list`: what exists of each kind."""

from typing import Annotated

import typer

from ctrobust.cli.console import print_paragraph, spinner
from ctrobust.errors import InputError, closest

KINDS = ("attacks", "data", "experiments", "losses", "methods", "models", "recipes", "regularizers")
LIST_EXAMPLE = "Example: ctrobust list attacks"


def list_kind(kind: Annotated[str, typer.Argument(help=f"One of {', '.join(KINDS)}.")]) -> None:
    """List what exists of a kind, each by its name and a description."""
    if kind not in KINDS:
        raise InputError(f"unknown kind {kind!r}; {closest(kind, KINDS)}")
    with spinner("loading"):
        from ctrobust.execution.catalogue import CATALOGUE

        rows = CATALOGUE[kind]()
    width = max(map(len, rows))
    for name, description in rows.items():
        print_paragraph(f"{name:{width}}  {description}", " " * (width + 2))
