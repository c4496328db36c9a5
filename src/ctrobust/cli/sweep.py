"""`ctrobust sweep`: the trainings and attacks of a sweep file, planned, run and rendered as a table."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ctrobust import specs
from ctrobust.cli.executor_options import Address, CpusPerJob, ExecutorName, GpusPerJob, Nice, Workers, WorkerThreads
from ctrobust.cli.experiment_options import DryRun, NoRun, PlanAsJson, ReadOnlyStores, RenderForm, StoreRoot
from ctrobust.cli.experiment_runs import ExperimentOptions, carry_out
from ctrobust.cli.options import DataRoot
from ctrobust.errors import SpecError
from ctrobust.experiments import Table, sweep_table

SWEEP_EXAMPLE = "Example: ctrobust sweep gammas.toml --dry-run, then without --dry-run"


def sweep(
    file: Annotated[Path, typer.Argument(help="TOML file with base, vary, seeds, attacks and limit.")],
    store: StoreRoot = Path("runs"),
    results: ReadOnlyStores = None,
    dry_run: DryRun = False,
    no_run: NoRun = False,
    form: RenderForm = "terminal",
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
    """Train every combination of the listed values, attack each network, and render one table.

    Jobs that are stored are not run again; the mean and spread over the seeds are shown.
    """
    from ctrobust.execution import ExecutorSettings

    settings = ExecutorSettings(workers, threads, nice, address, cpus_per_job, gpus_per_job)
    options = ExperimentOptions(
        store, results or (), dry_run, as_json, no_run, form, None, data_root, executor, settings
    )  # fmt: skip
    carry_out([read_sweep(file)], options)


def read_sweep(file: Path) -> Table:
    """Read a sweep file; an error names the file."""
    fields = specs.read_toml(file)
    try:
        return sweep_table(file.stem, fields, _make_spec)
    except SpecError as error:
        raise SpecError(f"{file}: {error}") from None


def _make_spec(fields: Mapping[str, Any]) -> specs.TrainSpec:
    """The spec that `ctrobust train` makes: on data of the user, the default batch size fits their number."""
    spec = specs.train_spec(fields)
    if spec.model.is_user_network:
        raise SpecError(
            f"model.name = {spec.model.name!r}: code of your own is run only where the command line names it; train it "
            f"with ctrobust train --model {spec.model.name}"
        )
    if ":" not in spec.data:
        return spec
    from ctrobust.cli.train import fit_batch_size

    return fit_batch_size(spec, fields)
