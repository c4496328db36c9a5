"""`ctrobust reproduce`: the paper's tables and figures, planned, run and rendered."""

from pathlib import Path
from typing import Annotated

import typer

from ctrobust.cli.executor_options import Address, CpusPerJob, ExecutorName, GpusPerJob, Nice, Workers, WorkerThreads
from ctrobust.cli.experiment_options import DryRun, NoRun, PlanAsJson, ReadOnlyStores, RenderForm, StoreRoot
from ctrobust.cli.experiment_runs import ExperimentOptions, carry_out
from ctrobust.cli.options import DataRoot
from ctrobust.experiments import EXPERIMENTS, PRESETS, experiment, select_cells

REPRODUCE_EXAMPLE = (
    "Example: ctrobust reproduce table7 --preset smoke, or ctrobust reproduce table1 --only MNISTNet --dry-run"
)


def reproduce(
    names: Annotated[list[str], typer.Argument(help=f"One or more of {', '.join(EXPERIMENTS)}, or all.")],
    preset: Annotated[str, typer.Option(help=f"Size of the experiments: {', '.join(PRESETS)}.")] = "laptop",
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help="Only cells whose row and column contain the text, such as 'MNISTNet Cyclic'. Repeatable: a cell "
            "must contain each.",
        ),
    ] = None,
    store: StoreRoot = Path("runs"),
    results: ReadOnlyStores = None,
    dry_run: DryRun = False,
    no_run: NoRun = False,
    form: RenderForm = "terminal",
    figures: Annotated[
        Path | None, typer.Option(help="Directory for the figures, each as PNG, SVG and Vega-Lite JSON.")
    ] = None,
    data_root: DataRoot = None,
    as_json: PlanAsJson = False,
    executor: ExecutorName = "local",
    workers: Workers = None,
    threads: WorkerThreads = 1,
    nice: Nice = 0,
    address: Address = None,
    cpus_per_job: CpusPerJob = None,
    gpus_per_job: GpusPerJob = 0.0,
) -> None:
    """Reproduce tables and figures of the paper: run the jobs that are not stored, then render the result."""
    from ctrobust.execution import ExecutorSettings

    chosen = dict.fromkeys(one for name in names for one in (EXPERIMENTS if name == "all" else [name]))
    wanted = select_cells([experiment(name, preset) for name in chosen], only or ())
    settings = ExecutorSettings(workers, threads, nice, address, cpus_per_job, gpus_per_job)
    carry_out(
        wanted,
        ExperimentOptions(
            store, results or (), dry_run, as_json, no_run, form, figures, data_root, executor, settings
        ),
    )  # fmt: skip
