"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

WHERE = "Where the run computes"
_THREADS = "Number of CPU threads. Default: torch's choice."

DataRoot = Annotated[
    Path | None,
    typer.Option(
        help="Folder that holds the data sets; searched before $CTROBUST_DATA, the cache and /usr/share/datasets."
    ),
]
Threads = Annotated[int | None, typer.Option(min=1, max=1024, help=_THREADS)]
HiddenThreads = Annotated[
    int | None, typer.Option("--threads", min=1, max=1024, help=_THREADS, hidden=True, rich_help_panel=WHERE)
]
