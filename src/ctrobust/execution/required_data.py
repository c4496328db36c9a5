"""The data sets that jobs need, looked for before anything runs."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from ctrobust.errors import DataError
from ctrobust.specs import EvaluationJob, Job, TrainingJob, VerdictJob

EMBEDDED = "digits"


def required_splits(jobs: Iterable[Job]) -> dict[str, list[str]]:
    """Data set -> the splits that jobs read. A training reads both; the embedded digits need no file."""
    found: dict[str, list[str]] = {}
    for job in jobs:
        name = (job.data if isinstance(job, EvaluationJob) else None) or job.training.data
        splits = ("train", "test") if isinstance(job, TrainingJob) else ("test",)
        if not isinstance(job, TrainingJob | VerdictJob):
            splits = (job.split,)
        if name != EMBEDDED:
            known = found.setdefault(name, [])
            known += [split for split in splits if split not in known]
    return dict(sorted(found.items()))


def missing_data(jobs: Iterable[Job], root: Path | None = None) -> list[str]:
    """One message for each data set that cannot be found: which files are needed and where they were looked for."""
    needed = required_splits(jobs)
    if not needed:
        return []
    return [message for name, splits in needed.items() if (message := _find_missing(name, splits, root))]


def require_data(jobs: Iterable[Job], root: Path | None = None) -> None:
    """Raise unless all data sets are found, with a message that lists every missing one."""
    missing = missing_data(jobs, root)
    if missing:
        raise DataError("\n".join(["nothing was run, because data are missing:", *missing]))


def _find_missing(name: str, splits: Sequence[str], root: Path | None) -> str | None:
    from ctrobust import data  # imported here because it loads torch
    from ctrobust.data.catalog import locate_split
    from ctrobust.data.locate import find_files, parse_locator

    if name.partition(":")[0] in data.PATH_LOADERS:
        path, _ = parse_locator(name, ["size"])
        return None if os.path.exists(path) else f"{name}: {path} does not exist or may not be entered"
    if name not in data.PUBLISHED:
        data.load(name)  # raises with the names that are known
        return None
    published = data.PUBLISHED[name]
    absent = [split for split in splits if not locate_split(published, split, root)]
    if absent:
        files = [file for split in absent for file in published.files[split]]
        try:
            find_files(published.folder, files, root, zipped=not published.members, dataset=name)
        except DataError as error:
            return str(error)
    return None
