"""Options of commands that run jobs: where the jobs run, and how many at a time."""

from typing import Annotated

import typer

from ctrobust.cli.options import WHERE

ExecutorName = Annotated[
    str,
    typer.Option(
        "--executor", help="local: processes on this machine. ray: a Ray cluster.", rich_help_panel=WHERE
    ),
]  # fmt: skip
Workers = Annotated[
    int | None,
    typer.Option(
        min=1, max=10_000, help="How many jobs run at a time. Default: one per CPU, or per CPU of the cluster.",
        rich_help_panel=WHERE,
    ),
]  # fmt: skip
WorkerThreads = Annotated[
    int, typer.Option("--threads", min=1, max=1024, help="Threads of each job.", rich_help_panel=WHERE)
]
Nice = Annotated[int, typer.Option(min=0, max=19, help="Niceness of the workers.", rich_help_panel=WHERE)]
Address = Annotated[
    str | None,
    typer.Option(
        help="Ray cluster: HOST:PORT, ray://HOST:PORT or auto. Default: $RAY_ADDRESS, else one on this machine.",
        rich_help_panel=WHERE,
    ),
]
CpusPerJob = Annotated[
    float | None,
    typer.Option(min=0, help="CPUs that a job reserves in a cluster. Default: one per thread.", rich_help_panel=WHERE),
]
GpusPerJob = Annotated[float, typer.Option(min=0, help="GPUs that a job reserves in a cluster.", rich_help_panel=WHERE)]
