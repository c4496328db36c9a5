"""The part of an executor that runs in a worker process: one job after another, each error reported as text."""

import traceback
from collections.abc import Callable
from pathlib import Path

import torch

from ctrobust.errors import CtrobustError, InUseError
from ctrobust.execution.coordinator import WorkerMessage
from ctrobust.execution.job_runner import run_job
from ctrobust.specs import Job
from ctrobust.store import Store
from ctrobust.training import CheckpointPolicy, TrainingInterrupted, keep_freed_memory


def prepare_worker(threads: int) -> None:
    """Set this process's threads and memory for numerical work."""
    torch.set_num_threads(threads)
    keep_freed_memory()


def run_reported(job: Job, store: Store, data_root: Path | None, stop: Callable[[], bool]) -> WorkerMessage | None:
    """Run a job and return what became of it; None if `stop` returned true and the state was saved."""
    try:
        run_job(job, store, data_root, CheckpointPolicy(stop=stop))
    except TrainingInterrupted:
        return None
    except InUseError as problem:
        return WorkerMessage("in use", str(problem))
    except CtrobustError as problem:
        return WorkerMessage("failed", f"{type(problem).__name__}: {problem}")
    except Exception:
        return WorkerMessage("failed", traceback.format_exc())
    return WorkerMessage("done")
