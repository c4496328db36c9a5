"""The runs of a report, read from disk. A file that cannot be read is named in the report; the others are shown."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ctrobust.errors import CtrobustError, RunError
from ctrobust.specs import RunSpec, UserModelSpec
from ctrobust.store import RunDirectory, RunRecord, Store, StoredEvaluation
from ctrobust.store.verdict_files import VerdictRecord, read_verdict

Content = TypeVar("Content")


@dataclass(frozen=True, eq=False)
class ReportedRun:
    """One run directory without its arrays.

    Attributes:
        number: its place in the report, from 0.
        name: the directory below the path that was given; two runs never share one.
        path: as it was found.
        spec: what was trained, or a network of the user that was trained elsewhere.
        record: None if the training is not finished, or was made elsewhere.
        metrics: one entry per epoch.
        evaluations: the finished evaluations.
        embeddings: files with two-dimensional embeddings.
        pictures: contact sheets.
        verdicts: on gradient masking.
    """

    number: int
    name: str
    path: Path
    spec: RunSpec
    record: RunRecord | None
    metrics: Sequence[dict[str, Any]]
    evaluations: Sequence[StoredEvaluation]
    embeddings: Sequence[Path]
    pictures: Sequence[Path]
    verdicts: Sequence[VerdictRecord]

    @property
    def last_weights(self) -> str | None:
        """The first 16 digits of the hash by which evaluations name the network."""
        if isinstance(self.spec, UserModelSpec):
            return self.spec.network[:16]
        return None if self.record is None else self.record.weights_sha256[:16]

    @property
    def seed(self) -> int | None:
        """The seed of the training; None if it was made elsewhere."""
        return None if isinstance(self.spec, UserModelSpec) else self.spec.seed


@dataclass
class Reading:
    """The runs that were read, and one sentence for each file that could not be."""

    runs: list[ReportedRun] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def attempt(self, read: Callable[[], Content]) -> Content | None:
        """Call a function that reads a file; what it complains about becomes a sentence of the report."""
        try:
            return read()
        except CtrobustError as error:
            self.problems.append(str(error))
            return None


def read_runs(paths: Sequence[Path]) -> Reading:
    """Read run directories, and all run directories below other directories; each is read once."""
    found: dict[Path, tuple[str, RunDirectory]] = {}
    for path in paths:
        if not path.exists():
            raise RunError(f"there is no {path}; allowed are run directories and directories that contain them")
        runs = [RunDirectory(path)] if (path / "spec.json").exists() else list(Store(path).runs())
        if not runs:
            raise RunError(f"no runs in {path}: a run directory has a spec.json")
        for run in runs:
            name = run.path.relative_to(path).as_posix() if run.path != path else path.resolve().name
            found.setdefault(run.path.resolve(), (name, run))
    reading = Reading()
    repeated = Counter(name for name, _ in found.values())
    for name, run in found.values():
        one = _read_run(run, name if repeated[name] == 1 else run.path.as_posix(), len(reading.runs), reading)
        if one is not None:
            reading.runs.append(one)
    if not reading.runs:
        raise RunError(f"none of the {len(found)} runs can be read; the first: {reading.problems[0]}")
    return reading


def _read_run(run: RunDirectory, name: str, number: int, reading: Reading) -> ReportedRun | None:
    spec = reading.attempt(run.read_any_spec)
    if spec is None:
        return None
    record = reading.attempt(run.read_record) if run.record_file.exists() else None
    files = sorted(run.outcomes_folder.glob("*.npz"))
    finished = [file for file in files if file.with_suffix(".json").exists()]
    evaluations = [reading.attempt(partial(StoredEvaluation.read, file)) for file in finished]
    verdict_files = sorted((run.path / "verdicts").glob("*.json"))
    verdicts = [reading.attempt(partial(read_verdict, file)) for file in verdict_files]
    artifacts = run.path / "artifacts"
    return ReportedRun(
        number, name, run.path, spec, record, run.read_metrics(), [one for one in evaluations if one is not None],
        sorted(artifacts.glob("tsne-*.npz")), sorted(artifacts.glob("*.png")),
        [one for one in verdicts if one is not None],
    )  # fmt: skip
