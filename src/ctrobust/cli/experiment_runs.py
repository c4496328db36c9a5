"""Experiments from the command line: planned, run where the user wants, rendered. For `reproduce` and `sweep`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ctrobust.cli.console import print_error
from ctrobust.cli.job_progress import job_progress
from ctrobust.cli.plan_output import print_plan
from ctrobust.cli.rendering_output import check_figures, print_renderings
from ctrobust.cli.signals import SignalInterrupt, given_command, resumed_by, stop_requests
from ctrobust.errors import InputError, JobsFailedError
from ctrobust.experiments import Figure, Table
from ctrobust.reporting import RENDERERS
from ctrobust.reporting.number_texts import count_text, listed
from ctrobust.specs import Job
from ctrobust.store import JobIndex, Store

if TYPE_CHECKING:
    from ctrobust.execution import ExecutionReport, ExecutorSettings, Plan
    from ctrobust.execution.executors import Executor

SHOWN_FAILURES = 10
"""The largest number of failed jobs that are listed."""


@dataclass(frozen=True)
class ExperimentOptions:
    """What the options of a command say about its experiments.

    Attributes:
        store: directory of the runs; `results` are further ones that are only read.
        dry_run: whether the plan is printed and nothing is run; `as_json` prints it as JSON.
        no_run: whether only what is stored is rendered.
        form: a key of RENDERERS.
        figures: directory for the figures; None writes none.
        data_root: where the data sets are.
        executor: a key of EXECUTORS; `settings` are its settings.
    """

    store: Path
    results: Sequence[Path]
    dry_run: bool
    as_json: bool
    no_run: bool
    form: str
    figures: Path | None
    data_root: Path | None
    executor: str
    settings: "ExecutorSettings"


def carry_out(wanted: Sequence[Table | Figure], options: ExperimentOptions) -> None:
    """Plan tables and figures, run what is not stored, and render the result."""
    _check(wanted, options)
    from ctrobust.execution import find_executor, make_plan
    from ctrobust.execution.required_data import require_data

    runs, run_jobs = Store(options.store, tuple(options.results)), find_executor(options.executor)
    plan = make_plan(wanted, JobIndex(runs))
    if options.dry_run:
        print_plan(plan, runs, options.settings.local_workers(), options.data_root, as_json=options.as_json)
        return
    report: ExecutionReport | None = None
    if plan.missing and not options.no_run:
        require_data(plan.missing, options.data_root)
        report = _run(plan, runs, run_jobs, options)
    failed = {} if report is None else report.failed
    print_renderings(wanted, runs, options.form, options.figures, failed)
    if report is not None and report.failed:
        _print_failures(plan, report)
        count = len(report.failed)
        raise JobsFailedError(f"{count} of {len(plan.missing)} jobs failed; run the command again to repeat them")


def _check(wanted: Sequence[Table | Figure], options: ExperimentOptions) -> None:
    """Refuse options that do not fit together before anything is read or run."""
    if options.form not in RENDERERS:
        raise InputError(f"--render is one of {', '.join(RENDERERS)}; got {options.form}")
    if options.as_json and not options.dry_run:
        raise InputError("--json is for --dry-run; --render csv gives the values")
    for path in options.results:
        if not path.is_dir():
            raise InputError(f"--results {path}: there is no such directory")
    check_figures(wanted, options.figures)


def _run(plan: "Plan", runs: Store, run_jobs: "Executor", options: ExperimentOptions) -> "ExecutionReport":
    missing = set(plan.missing)
    stored = [job for job in plan.jobs if job not in missing]
    with stop_requests() as stop, resumed_by(given_command), job_progress() as callback:
        report = run_jobs(
            plan.missing, runs, stored=stored, options=options.settings, data_root=options.data_root,
            callback=callback, stop=stop,
        )  # fmt: skip
        if stop() and len(report.done) + len(report.failed) < len(plan.missing):
            raise SignalInterrupt("stopped; finished jobs are stored, and running ones have saved their state")
    return report


def _print_failures(plan: "Plan", report: "ExecutionReport") -> None:
    """List the failed jobs with their logs, and the cells that lack a value because of them.

    Jobs that failed because their training did are part of its entry.
    """
    from ctrobust.execution.planning import describe_job

    by_log: dict[Path, list[Job]] = {}
    for job, log in report.failed.items():
        by_log.setdefault(log, []).append(job)
    for log, (job, *others) in list(by_log.items())[:SHOWN_FAILURES]:
        jobs = {job, *others}
        cells = [
            f"{one.name} ({cell.row}, {cell.column})"
            for one in plan.experiments
            for cell in one.all_cells
            if not jobs.isdisjoint(cell.jobs)
        ]
        text = f"{describe_job(job)} failed: {report.errors[job]}"
        text += f"\n  and with it {count_text(len(others), 'job')} on its weights" if others else ""
        text += f"\n  log: {log}" if log.exists() else ""
        print_error(f"{text}\n  cells: {listed(cells)}" if cells else text)
    if len(by_log) > SHOWN_FAILURES:
        more = count_text(len(by_log) - SHOWN_FAILURES, "more job")
        print_error(f"{more} failed; logs are in {next(iter(by_log)).parent}")
