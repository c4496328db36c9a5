"""`ctrobust reproduce`: the paper's tables and figures, planned, run and rendered."""

import json
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ctrobust.cli.console import messages, print_error, print_line
from ctrobust.cli.options import DataRoot
from ctrobust.cli.signals import SignalInterrupt, stop_requests
from ctrobust.errors import InputError, JobsFailedError
from ctrobust.experiments import EXPERIMENTS, PRESETS, Figure, Table, experiment
from ctrobust.reporting import RENDERERS, render
from ctrobust.specs import EvaluationJob, Job, TrainingJob
from ctrobust.store import JobIndex, Store

if TYPE_CHECKING:
    from ctrobust.execution.local_executor import ExecutionReport
    from ctrobust.execution.planning import Plan

REPRODUCE_EXAMPLE = "Example: ctrobust reproduce table7 --preset smoke, or ctrobust reproduce table1 --dry-run"


def reproduce(
    names: Annotated[list[str], typer.Argument(help=f"One or more of {', '.join(EXPERIMENTS)}, or all.")],
    preset: Annotated[str, typer.Option(help=f"Size of the experiments: {', '.join(PRESETS)}.")] = "laptop",
    store: Annotated[Path, typer.Option(help="Directory of the runs.")] = Path("runs"),
    results: Annotated[
        list[Path] | None, typer.Option(help="Further directories with runs, which are only read. Repeatable.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and run nothing.")] = False,
    no_run: Annotated[bool, typer.Option("--no-run", help="Render what is stored and run nothing.")] = False,
    form: Annotated[str, typer.Option("--render", help=f"Form of the result: {', '.join(RENDERERS)}.")] = "terminal",
    workers: Annotated[int, typer.Option(min=1, help="Number of worker processes.")] = 2,
    threads: Annotated[int, typer.Option(min=1, help="Threads of each worker.")] = 1,
    nice: Annotated[int, typer.Option(min=0, max=19, help="Niceness of the workers.")] = 0,
    data_root: DataRoot = None,
    as_json: Annotated[bool, typer.Option("--json", help="With --dry-run, print the plan as JSON.")] = False,
) -> None:
    """Reproduce tables and figures of the paper: run the jobs that are not stored, then render the result."""
    if form not in RENDERERS:
        raise InputError(f"--render is one of {', '.join(RENDERERS)}; got {form}")
    if as_json and not dry_run:
        raise InputError("--json is for --dry-run; --render csv gives the values")
    for path in results or ():
        if not path.is_dir():
            raise InputError(f"--results {path}: there is no such directory")
    wanted = [experiment(name, preset) for name in (EXPERIMENTS if names == ["all"] else names)]
    runs = Store(store, tuple(results or ()))
    from ctrobust.execution.planning import make_plan

    plan = make_plan(wanted, JobIndex(runs))
    if dry_run:
        _print_plan(plan, as_json=as_json)
        return
    failed: dict[Job, Path] = {}
    if plan.missing and not no_run:
        command = shlex.join(["ctrobust", *sys.argv[1:]])
        failed = _run(plan, runs, workers, threads, nice, data_root, command).failed
    _print_renderings(wanted, runs, form)
    if failed:
        for job, log in failed.items():
            print_error(f"{_describe(job)} failed: {log}")
        raise JobsFailedError(f"{len(failed)} of {len(plan.missing)} jobs failed; run the command again to repeat them")


def _run(
    plan: "Plan", runs: Store, workers: int, threads: int, nice: int, data_root: Path | None, command: str
) -> "ExecutionReport":
    from ctrobust.execution.local_executor import run_locally

    started, reported = time.monotonic(), 0.0

    def report(state: "ExecutionReport", running: Sequence[Job], total: int) -> None:
        nonlocal reported
        finished = len(state.done) + len(state.failed)
        if time.monotonic() - reported < 10 and finished < total:
            return
        reported = time.monotonic()
        elapsed = reported - started
        left = f", about {elapsed / finished * (total - finished) / 60:.0f} min left" if finished else ""
        now = "; ".join(map(_describe, running))
        messages.print(f"{finished} of {total} jobs{left}{f': {now}' if now else ''}", markup=False, soft_wrap=True)

    stored = [job for job in plan.jobs if job not in set(plan.missing)]
    with stop_requests() as stop:
        state = run_locally(
            plan.missing, runs, stored=stored, workers=workers, threads=threads, nice=nice, data_root=data_root,
            callback=report, stop=stop,
        )  # fmt: skip
        if stop():
            raise SignalInterrupt(f"stopped; finished jobs are stored. Continue with\n  {command}")
    return state


def _describe(job: Job) -> str:
    from ctrobust.execution.planning import describe_job

    return describe_job(job)


def _print_plan(plan: "Plan", *, as_json: bool) -> None:
    if as_json:
        print_line(json.dumps(plan.as_json(), indent=2))
        return
    for one in plan.experiments:
        print_line(f"{one.name} ({one.preset}): {one.title}")
    print_line(f"cells: {sum(len(one.all_cells) for one in plan.experiments):,}")
    for kind, title in ((TrainingJob, "trainings"), (EvaluationJob, "evaluations")):
        print_line(f"{title}: {plan.count(kind):,}, of which {plan.count(kind, plan.missing):,} are not stored")
    other = len(plan.jobs) - plan.count(TrainingJob) - plan.count(EvaluationJob)
    if other:
        print_line(f"embeddings: {other:,}")


def _print_renderings(wanted: Sequence[Table | Figure], runs: Store, form: str) -> None:
    index = JobIndex(runs)
    for one in wanted:
        print_line(render(one, index, form).rstrip("\n") + ("\n" if form != "csv" else ""))
