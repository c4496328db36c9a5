"""Run directories as bytes, for worker machines that do not share the store's file system."""

from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from ctrobust.errors import RunError
from ctrobust.execution.job_runner import find_trained, writable_run
from ctrobust.specs import Job, TrainingJob
from ctrobust.store import RunDirectory, Store, write_atomic

RunFiles = dict[str, bytes]
"""Path below a run directory, with slashes -> content."""

_LAST = ("spec.json", "record.json")
"""Files that are written after all others: whoever reads the store meanwhile finds them only with what they name."""


def needed_files(job: Job, store: Store) -> RunFiles:
    """The files of a finished training that a job of its weights needs; a training needs none."""
    if isinstance(job, TrainingJob):
        return {}
    run = find_trained(job, store)
    weights = run.model_file if job.weights == "last" else run.best_file
    clean = run.outcomes_folder.glob("none-*")  # clean outcomes, which all attacks on the same images share
    return _read(run, [run.spec_file, run.record_file, weights, *clean])


def new_files(run: RunDirectory, sent: Mapping[str, bytes]) -> RunFiles:
    """The files that a job has made in its run directory, without locks, checkpoints to resume from and what was sent.

    Results are never changed once they are written, so a file that was sent is not sent back.
    """
    files = (file for file in run.path.rglob("*") if file.is_file() and not file.name.startswith("."))
    return _read(run, [file for file in files if file != run.checkpoint_file and _name(run, file) not in sent])


def write_files(run: RunDirectory, files: Mapping[str, bytes]) -> None:
    """Write files into a run directory, records last."""
    for name in sorted(files, key=_order):
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise RunError(f"a worker returned the file {name!r}, which is not below its run directory")
        write_atomic(run.path / path, files[name])


def store_files(job: Job, store: Store, files: Mapping[str, bytes]) -> None:
    """Write what a job made on another machine into the store; results that are there already stay."""
    if isinstance(job, TrainingJob):
        run = store.find_writable(job.training)
        with run.locked():
            write_files(run, files)
        return
    run = writable_run(job, store)
    write_files(run, {name: content for name, content in files.items() if not (run.path / name).exists()})


def _order(name: str) -> tuple[bool, bool, str]:
    return name in _LAST, name.endswith(".json"), name


def _read(run: RunDirectory, files: Iterable[Path]) -> RunFiles:
    return {_name(run, file): file.read_bytes() for file in files if file.is_file()}


def _name(run: RunDirectory, file: Path) -> str:
    return file.relative_to(run.path).as_posix()
