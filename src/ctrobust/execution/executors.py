"""The executors: what runs the jobs of a plan. All give the same results; they differ in where the work is done."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from ctrobust.errors import InputError
from ctrobust.execution.execution_report import ExecutionCallback, ExecutionReport
from ctrobust.execution.executor_settings import ExecutorSettings
from ctrobust.execution.local_executor import run_locally
from ctrobust.execution.ray_executor import run_on_ray
from ctrobust.specs import Job
from ctrobust.store import Store


class Executor(Protocol):
    """Runs jobs and stores their results; `coordinator.coordinate` explains what happens to each job."""

    def __call__(
        self,
        jobs: Sequence[Job],
        store: Store,
        *,
        stored: Sequence[Job] = (),
        options: ExecutorSettings | None = None,
        data_root: Path | None = None,
        callback: ExecutionCallback | None = None,
        stop: Callable[[], bool] = ...,
    ) -> ExecutionReport: ...


EXECUTORS: dict[str, Executor] = {"local": run_locally, "ray": run_on_ray}
"""Name -> executor."""


def find_executor(name: str) -> Executor:
    """Look up an executor.

    Example:
        >>> find_executor("local").__name__
        'run_locally'
    """
    if name not in EXECUTORS:
        raise InputError(f"--executor is one of {', '.join(EXECUTORS)}; got {name}")
    return EXECUTORS[name]
