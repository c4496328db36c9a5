"""The run directory: one training run with everything that came of it."""

import contextlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ctrobust.errors import RunError, SpecError
from ctrobust.specs import EvaluationSpec, TrainSpec, describe, read_description, spec_hash
from ctrobust.store.atomic import remove_leftovers, write_atomic
from ctrobust.store.outcome_files import StoredEvaluation
from ctrobust.store.records import RunRecord, read_record, write_record


def directory_name(spec: TrainSpec) -> str:
    """The default name of a run's directory: its data, its network and the hash of its spec.

    Example:
        >>> directory_name(TrainSpec(data="folder:my pictures"))
        'folder-my-pictures-mnistnet-b845a2509bf2c4be'
    """
    return f"{re.sub('[^A-Za-z0-9.]+', '-', spec.data)}-{spec.model.name}-{spec_hash(spec)}"


@dataclass(frozen=True)
class RunDirectory:
    """The files of a run.

    `spec.json`, `metrics.jsonl`, `checkpoint/last.safetensors`, `model.safetensors`, `record.json`, `outcomes/*.npz`
    with a `.json` record beside each; with held-out images also `checkpoint/best.safetensors`.
    """

    path: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))  # a string is accepted too

    @property
    def spec_file(self) -> Path:
        return self.path / "spec.json"

    @property
    def metrics_file(self) -> Path:
        """One JSON object per epoch."""
        return self.path / "metrics.jsonl"

    @property
    def checkpoint_file(self) -> Path:
        """The state to resume from."""
        return self.path / "checkpoint" / "last.safetensors"

    @property
    def best_file(self) -> Path:
        """The weights that were best on the held-out images."""
        return self.path / "checkpoint" / "best.safetensors"

    @property
    def model_file(self) -> Path:
        """The trained weights."""
        return self.path / "model.safetensors"

    @property
    def record_file(self) -> Path:
        """Results, times, environment."""
        return self.path / "record.json"

    @property
    def outcomes_folder(self) -> Path:
        return self.path / "outcomes"

    def outcomes_file(self, spec: EvaluationSpec) -> Path:
        """The outcomes of one attack; the name is readable and contains the hash of the spec."""
        readable = re.sub(r"[^a-z0-9.=-]+", "-", spec.attack.replace("/", "_").lower()).strip("-")
        return self.outcomes_folder / f"{readable[:80]}-{spec_hash(spec)}.npz"

    def evaluations(self) -> list[StoredEvaluation]:
        """All finished evaluations of this run, sorted by file name; the record is written after the arrays."""
        files = sorted(self.outcomes_folder.glob("*.npz"))
        return [StoredEvaluation.read(file) for file in files if file.with_suffix(".json").exists()]

    def find_evaluation(self, spec: EvaluationSpec) -> StoredEvaluation | None:
        """The evaluation with this spec, if it is finished: the record is written after the arrays."""
        file = self.outcomes_file(spec)
        if not (file.exists() and file.with_suffix(".json").exists()):
            return None
        found = StoredEvaluation.read(file)
        if found.record.spec != spec:
            raise RunError(f"{file.with_suffix('.json')} describes another evaluation than its name; remove it")
        return found

    def check_writable(self) -> None:
        """Raise before hours of work if outcomes cannot be written."""
        folder = self.outcomes_folder
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot write outcomes to {folder}: {error.strerror or error}") from None
        if not os.access(folder, os.W_OK):
            raise RunError(f"cannot write outcomes to {folder}: not allowed")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run for this process; a second process is refused. The lock is released when its process dies."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.path / ".lock", blocking=False)
            lock.acquire()
        except Timeout:
            raise RunError(f"{self.path} is in use by another process") from None
        except OSError as error:
            raise RunError(f"cannot use {self.path}: {error.strerror or error}") from error
        try:
            for folder in (self.path, self.checkpoint_file.parent):
                remove_leftovers(folder)
            yield
        finally:
            lock.release()

    @contextlib.contextmanager
    def writing(self, outcomes: Path) -> Iterator[None]:
        """Hold the outcomes of one attack for this process; a second process that makes the same is refused."""
        lock = FileLock(outcomes.with_name(f".{outcomes.stem}.lock"), blocking=False)
        try:
            lock.acquire()
        except Timeout:
            raise RunError(f"another process is making {outcomes}") from None
        except OSError as error:
            raise RunError(f"cannot write to {outcomes.parent}: {error.strerror or error}") from None
        try:
            remove_leftovers(outcomes.parent, of=outcomes.stem)
            yield
        finally:
            Path(lock.lock_file).unlink(missing_ok=True)
            lock.release()

    @contextlib.contextmanager
    def writing_clean_outcomes(self) -> Iterator[None]:
        """Hold the clean outcomes, which several attacks share; a second process waits for the first."""
        with FileLock(self.outcomes_folder / ".clean.lock"):
            yield

    def read_spec(self) -> TrainSpec:
        try:
            return read_description(self.spec_file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise RunError(f"{self.path} is not a run directory: it has no spec.json") from None
        except OSError as error:
            raise RunError(f"cannot read {self.spec_file}: {error.strerror or error}") from None
        except (SpecError, UnicodeDecodeError) as error:
            raise RunError(f"{self.spec_file}: {error}") from None

    def write_spec(self, spec: TrainSpec) -> None:
        write_atomic(self.spec_file, describe(spec).encode())

    def clear(self) -> None:
        """Remove spec and metrics, so that another run can begin here, and the directory if nothing else is in it."""
        self.metrics_file.unlink(missing_ok=True)
        self.spec_file.unlink(missing_ok=True)
        if [file.name for file in self.path.iterdir()] == [".lock"]:
            with contextlib.suppress(OSError):  # some systems do not remove a file that is open
                (self.path / ".lock").unlink()
                self.path.rmdir()

    def write_record(self, record: RunRecord) -> None:
        write_record(self.record_file, record)

    def read_record(self) -> RunRecord:
        if not self.record_file.exists():
            raise RunError(f"{self.path} is not finished: ctrobust train --resume --out {self.path}")
        return read_record(self.record_file, RunRecord)

    def read_metrics(self) -> list[dict[str, Any]]:
        """The metrics of the finished epochs; a last line cut off by a kill is left out."""
        if not self.metrics_file.exists():
            return []
        metrics = []
        for line in self.metrics_file.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                metrics.append(json.loads(line))
            except ValueError:
                break
        return metrics

    def truncate_metrics(self, last_epoch: int) -> None:
        """Drop the metrics of epochs after the checkpoint, which will be trained again."""
        kept = [line for line in self.read_metrics() if line["epoch"] <= last_epoch]
        write_atomic(self.metrics_file, "".join(json.dumps(line) + "\n" for line in kept).encode())

    def add_metrics(self, line: dict[str, Any]) -> None:
        """Append one epoch."""
        try:
            with self.metrics_file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
                file.flush()
                os.fsync(file.fileno())  # the checkpoint written next assumes that the line is there
        except OSError as error:
            raise RunError(f"cannot write {self.metrics_file}: {error.strerror or error}") from error
