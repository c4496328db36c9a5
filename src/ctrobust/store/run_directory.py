"""The run directory: one training run with everything that came of it."""

import contextlib
import json
import os
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from ctrobust.errors import InUseError, RunError, SpecError
from ctrobust.regular_file import read_regular_file
from ctrobust.specs import (
    MOST_SPEC_BYTES,
    EvaluationSpec,
    RunSpec,
    TrainSpec,
    UserModelSpec,
    describe,
    read_description,
    spec_hash,
)
from ctrobust.store.atomic import damaged_name, is_leftover, remove_leftovers, write_atomic
from ctrobust.store.directory_lock import DirectoryLock
from ctrobust.store.metrics_lines import parse_metrics
from ctrobust.store.outcome_files import StoredEvaluation
from ctrobust.store.records import RunRecord, read_record, write_record
from ctrobust.store.spec_edits import find_edit

MOST_METRICS_BYTES = 64 << 20
_UNDO = "restore the file, or start a new run with another --out"


def directory_name(spec: RunSpec) -> str:
    """The default name of a run's directory: its data, its network and the hash of its spec.

    That of a network of the user that was trained elsewhere begins with its factory.

    Example:
        >>> directory_name(TrainSpec(data="folder:my pictures"))
        'folder-my-pictures-mnistnet-b845a2509bf2c4be'
    """
    words = (spec.factory, spec.data) if isinstance(spec, UserModelSpec) else (spec.data, spec.model.name)
    return "-".join([*(re.sub("[^A-Za-z0-9.]+", "-", word) for word in words), spec_hash(spec)])


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
    def previous_checkpoint_file(self) -> Path:
        """The checkpoint before, for a last one that is damaged: at most an epoch older after the first epoch."""
        return self.path / "checkpoint" / "previous.safetensors"

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
    def divergence_file(self) -> Path:
        """Where training diverged; it is there until training continues with another rate, or finishes."""
        return self.path / "diverged.json"

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

    def check_writable(self, folder: Path | None = None) -> None:
        """Raise before hours of work if outcomes, or files of another folder, cannot be written."""
        folder = folder or self.outcomes_folder
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot write outcomes to {folder}: {error.strerror or error}") from None
        if not os.access(folder, os.W_OK):
            raise RunError(f"cannot write outcomes to {folder}: not allowed")

    @contextlib.contextmanager
    def locked(self) -> Iterator[DirectoryLock]:
        """Hold the run for this process; a second process is refused. The lock is released when its process dies."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot use {self.path}: {error.strerror or error}") from error
        lock = DirectoryLock(self.path)
        lock.acquire()
        try:
            for folder in (self.path, self.checkpoint_file.parent):
                remove_leftovers(folder)
            yield lock
        finally:
            lock.release()

    def check_free(self) -> None:
        """Raise if a new run would be written among files that are not those of a run."""
        entries = sorted(path.name for path in self.path.iterdir() if not is_leftover(path))
        if found := [name for name in entries if name not in (".lock", "tensorboard")]:
            names = ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
            raise RunError(
                f"{self.path} is not empty and not a run directory: it has no spec.json but {names}; "
                "choose another --out"
            )

    @contextlib.contextmanager
    def writing(self, outcomes: Path) -> Iterator[None]:
        """Hold the outcomes of one attack for this process; a second process that makes the same is refused."""
        lock = FileLock(outcomes.with_name(f".{outcomes.stem}.lock"), blocking=False)
        try:
            lock.acquire()
        except Timeout:
            raise InUseError(f"another process is making {outcomes}") from None
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
        """Read the spec of a training; one that was edited after it was written is refused."""
        spec = self.read_any_spec()
        if isinstance(spec, UserModelSpec):
            raise RunError(
                f"{self.path} holds evaluations of {spec.factory}, which was not trained here; name the factory and "
                f"its weights: ctrobust evaluate {spec.factory} --weights FILE --data {spec.data} --out {self.path}"
            )
        return spec

    def read_any_spec(self) -> RunSpec:
        """Read the spec of a training, or of a network of the user that was trained elsewhere."""
        content = self.read_spec_fields()
        try:
            spec = read_description(json.dumps(content))
        except (SpecError, RecursionError) as error:
            raise RunError(f"{self.spec_file}: {error}; {_UNDO}") from None
        if edit := find_edit(content, spec):
            raise RunError(f"{self.spec_file} was changed after it was written: {edit}; {_UNDO}")
        return spec

    def read_spec_fields(self) -> dict[str, Any]:
        """What spec.json holds, of any version: the canonical fields, their hash and the resolved ones."""
        try:
            content = json.loads(read_regular_file(self.spec_file, MOST_SPEC_BYTES).decode("utf-8"))
        except FileNotFoundError:
            raise RunError(f"{self.path} is not a run directory: it has no spec.json") from None
        except OSError as error:
            raise RunError(f"cannot read {self.spec_file}: {error.strerror or error}") from None
        except (ValueError, RecursionError) as error:
            raise RunError(f"{self.spec_file}: not a spec: {error}; {_UNDO}") from None
        if not isinstance(content, dict):
            raise RunError(f"{self.spec_file}: not a spec: it holds no JSON object; {_UNDO}")
        return content

    def write_spec(self, spec: RunSpec) -> None:
        write_atomic(self.spec_file, describe(spec).encode())

    def clear(self) -> None:
        """Remove what a run wrote before its first checkpoint, and the directory if nothing else is in it."""
        for file in (self.metrics_file, self.best_file, self.spec_file):
            file.unlink(missing_ok=True)
        for folder in (self.checkpoint_file.parent, self.path):
            with contextlib.suppress(OSError):  # it does not exist, or something else is in it
                folder.rmdir()

    def write_record(self, record: RunRecord) -> None:
        write_record(self.record_file, record)

    def read_record(self) -> RunRecord:
        """Read the record; that of another spec than the one beside it is refused."""
        if not self.record_file.exists():
            raise RunError(f"{self.path} is not finished: ctrobust train --resume --out {self.path}")
        record = read_record(self.record_file, RunRecord)
        if self.spec_file.exists() and (found := spec_hash(self.read_spec())) != record.spec:
            raise RunError(
                f"{self.spec_file} was changed after the run finished: its hash is {found}, that of the run is "
                f"{record.spec} in {self.record_file.name}; {_UNDO}"
            )
        return record

    @property
    def has_diverged(self) -> bool:
        """Whether the last training here diverged."""
        return self.divergence_file.exists()

    def write_divergence(self, fields: dict[str, Any]) -> None:
        """Record that training diverged, and where."""
        write_atomic(self.divergence_file, (json.dumps(fields, indent=2) + "\n").encode())

    def read_metrics(self) -> list[dict[str, Any]]:
        """The metrics of the finished epochs; damaged lines are left out, and a last one that a kill cut off."""
        return parse_metrics(self._metrics_content())[0]

    def truncate_metrics(self, last_epoch: int) -> None:
        """Drop the metrics of epochs after the checkpoint, which will be trained again.

        If lines are damaged, the file is kept under another name; that and missing epochs are warned of.
        """
        content = self._metrics_content()
        good, damaged = parse_metrics(content)
        if damaged:
            aside = damaged_name(self.metrics_file)
            write_atomic(aside, content)
            lines = f"{damaged} damaged line{'s' if damaged > 1 else ''}"
            warnings.warn(f"{self.metrics_file} has {lines}; it is kept as {aside.name}", stacklevel=2)
        kept = [line for line in good if line["epoch"] <= last_epoch]
        missing = sorted(set(range(1, last_epoch + 1)) - {line["epoch"] for line in kept})
        if missing:
            epochs = ", ".join(map(str, missing[:5])) + (" and more" if len(missing) > 5 else "")
            warnings.warn(f"{self.metrics_file} has no line for epoch {epochs}, and none is made", stacklevel=2)
        write_atomic(self.metrics_file, "".join(json.dumps(line) + "\n" for line in kept).encode())

    def _metrics_content(self) -> bytes:
        try:
            return read_regular_file(self.metrics_file, MOST_METRICS_BYTES)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise RunError(f"cannot read {self.metrics_file}: {error.strerror or error}") from None

    def add_metrics(self, line: dict[str, Any]) -> None:
        """Append one epoch."""
        try:
            with self.metrics_file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
                file.flush()
                os.fsync(file.fileno())  # the checkpoint written next assumes that the line is there
        except OSError as error:
            raise RunError(f"cannot write {self.metrics_file}: {error.strerror or error}") from error
