"""All runs below one directory, or several, found by the hash of their spec."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from ctrobust.errors import InUseError, RunError
from ctrobust.specs import Job, TrainSpec, spec_hash
from ctrobust.store.outcome_files import StoredEvaluation
from ctrobust.store.run_directory import RunDirectory, directory_name

_INSIDE_RUNS = frozenset({"artifacts", "checkpoint", "outcomes"})
"""Folders of a run directory, which hold no runs."""


class Store:
    """Runs on disk. No data set, weights file or torch is needed to list and read them.

    Attributes:
        root: where new runs go; its subdirectories, at any depth, are searched for runs.
        read_only: further directories that are searched and never written to.
    """

    def __init__(self, root: Path | str, read_only: tuple[Path | str, ...] = ()) -> None:
        self.root = Path(root)
        self.read_only = tuple(Path(path) for path in read_only)
        self._hashes: dict[Path, tuple[tuple[int, int], str | None]] = {}

    def runs(self) -> Iterator[RunDirectory]:
        """Every run directory, finished or not, sorted by path; a directory is a run if it has a spec.json."""
        for root in (self.root, *self.read_only):
            for path in sorted(_run_paths(str(root))):
                yield RunDirectory(Path(path))

    def hash_of(self, run: RunDirectory) -> str | None:
        """The hash of a run's spec; None if its spec.json cannot be read. A file is read again only if it changed."""
        try:
            state = run.spec_file.stat()
        except OSError:
            return None
        version = (state.st_mtime_ns, state.st_ino)
        if self._hashes.get(run.path, (None,))[0] != version:
            self._hashes[run.path] = version, stored_hash(run)
        return self._hashes[run.path][1]

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
        return [run for run in self.runs() if self.hash_of(run) == wanted]

    def find_writable(self, spec: TrainSpec) -> RunDirectory:
        """The run of this spec below `root`, where results may be written, or the directory it would have."""
        found = [run for run in self.find_all(spec) if self._is_writable(run)]
        finished = (run for run in found if run.record_file.exists())
        return next(finished, found[0] if found else self.directory(spec))

    def _is_writable(self, run: RunDirectory) -> bool:
        return run.path.is_relative_to(self.root) and not any(map(run.path.is_relative_to, self.read_only))

    def check_writable(self) -> None:
        """Raise before hours of work if results cannot be written."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.root):
                pass
        except OSError as error:
            raise RunError(f"cannot write to the store {self.root}: {error.strerror or error}") from None

    @contextlib.contextmanager
    def locked(self, job: Job) -> Iterator[None]:
        """Hold a job for this process; InUseError if another process holds it.

        Whoever gets the lock must look whether the result has been stored meanwhile. The lock is released when its
        process dies.
        """
        lock = FileLock(self.root / ".locks" / f"{spec_hash(job)}.lock", blocking=False)
        try:
            Path(lock.lock_file).parent.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except Timeout:
            raise InUseError(f"another process runs job {spec_hash(job)}") from None
        except OSError as error:
            raise RunError(f"cannot write to the store {self.root}: {error.strerror or error}") from None
        try:
            yield
        finally:
            # A process that has opened the file gets a lock that the next one does not see. It finds the result, or if
            # the job was not finished, the lock of the run directory keeps the two apart.
            Path(lock.lock_file).unlink(missing_ok=True)
            lock.release()

    def evaluations(self, run: RunDirectory) -> list[StoredEvaluation]:
        """The finished evaluations of a run."""
        return run.evaluations()


def _run_paths(folder: str) -> Iterator[str]:
    """The run directories at or below a folder; folders that vanish or cannot be read are passed over."""
    folders: list[str] = []
    is_run = False
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name == "spec.json":
                    is_run = True
                elif entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
    except OSError:
        return
    if is_run:
        yield folder
    for name in folders:
        if not (is_run and name in _INSIDE_RUNS):
            yield from _run_paths(os.path.join(folder, name))


def stored_hash(run: RunDirectory) -> str | None:
    """The hash of the spec in a run directory; None if its spec.json cannot be read."""
    with contextlib.suppress(RunError):
        content = run.read_spec_fields()
        if isinstance(content.get("hash"), str) and "canonical" in content:
            return str(content["hash"])
        return spec_hash(run.read_spec())
    return None
