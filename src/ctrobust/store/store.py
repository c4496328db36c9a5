"""All runs below one directory, or several, found by the hash of their spec."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

from ctrobust.errors import RunError
from ctrobust.specs import TrainSpec, spec_hash
from ctrobust.store.outcome_files import StoredEvaluation
from ctrobust.store.run_directory import RunDirectory, directory_name


class Store:
    """Runs on disk. No data set, weights file or torch is needed to list and read them.

    Attributes:
        root: where new runs go; its subdirectories, at any depth, are searched for runs.
        read_only: further directories that are searched and never written to.
    """

    def __init__(self, root: Path | str, read_only: tuple[Path | str, ...] = ()) -> None:
        self.root = Path(root)
        self.read_only = tuple(Path(path) for path in read_only)

    def runs(self) -> Iterator[RunDirectory]:
        """Every run directory, finished or not, sorted by path; a directory is a run if it has a spec.json."""
        for root in (self.root, *self.read_only):
            if not root.is_dir():
                continue
            for file in sorted(root.rglob("spec.json")):
                yield RunDirectory(file.parent)

    def directory(self, spec: TrainSpec) -> RunDirectory:
        """Where the run of this spec is or would be made: the only place that names run directories."""
        return RunDirectory(self.root / directory_name(spec))

    def find(self, spec: TrainSpec) -> RunDirectory | None:
        """The run of this spec, a finished one first: the directory that its hash names, or any other."""
        found = self.find_all(spec)
        return next((run for run in found if run.record_file.exists()), found[0] if found else None)

    def find_all(self, spec: TrainSpec) -> list[RunDirectory]:
        """Every run of this spec, those below `root` first."""
        wanted = spec_hash(spec)
        return [run for run in self.runs() if stored_hash(run) == wanted]

    def find_writable(self, spec: TrainSpec) -> RunDirectory:
        """The run of this spec below `root`, where results may be written, or the directory it would have."""
        below = Store(self.root).find(spec)
        return below or self.directory(spec)

    def evaluations(self, run: RunDirectory) -> list[StoredEvaluation]:
        """The finished evaluations of a run."""
        return run.evaluations()


def stored_hash(run: RunDirectory) -> str | None:
    """The hash of the spec in a run directory; None if its spec.json cannot be read."""
    with contextlib.suppress(OSError, ValueError, RunError):
        content = json.loads(run.spec_file.read_bytes())
        if isinstance(content, dict) and isinstance(content.get("hash"), str) and "canonical" in content:
            return str(content["hash"])
        return spec_hash(run.read_spec())
    return None
