"""The run directory: one training run with all that came of it."""

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
from ctrobust.specs import EvaluationSpec, TrainSpec, canonical, from_canonical, spec_hash
from ctrobust.store.atomic import remove_leftovers, write_atomic


@dataclass(frozen=True)
class RunDirectory:
    """Where each part of a run lies.

    `spec.json`, `metrics.jsonl`, `checkpoint/last.safetensors`, `model.safetensors`, `record.json`, `outcomes/*.npz`;
    with held-out images `checkpoint/best.safetensors`.
    """

    path: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))  # text will do

    @property
    def spec_file(self) -> Path:
        """What the run is."""
        return self.path / "spec.json"

    @property
    def metrics_file(self) -> Path:
        """One JSON object an epoch."""
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

    def outcomes_file(self, spec: EvaluationSpec) -> Path:
        """Per-example outcomes of one attack, named so that a reader knows it and a program finds it."""
        readable = re.sub(r"[^a-z0-9.=-]+", "-", spec.attack.replace("/", "_").lower()).strip("-")
        return self.path / "outcomes" / f"{readable[:80]}-{spec_hash(spec)}.npz"

    def check_writable(self) -> None:
        """Refuse a place for outcomes that cannot be written to, before hours of work are put there."""
        folder = self.path / "outcomes"
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot write outcomes to {folder}: {error.strerror or error}") from None
        if not os.access(folder, os.W_OK):
            raise RunError(f"cannot write outcomes to {folder}: not allowed")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run for this process; a second one is refused. The lock dies with its process."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.path / ".lock", blocking=False)
            with lock:
                for folder in (self.path, self.checkpoint_file.parent):
                    remove_leftovers(folder)
                yield
        except Timeout:
            raise RunError(f"{self.path} is in use by another process") from None
        except OSError as error:
            raise RunError(f"cannot use {self.path}: {error.strerror or error}") from error

    @contextlib.contextmanager
    def writing(self, outcomes: Path) -> Iterator[None]:
        """Hold one attack's outcomes for this process; a second one that makes the same is refused."""
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

    def read_spec(self) -> TrainSpec:
        """What this run is."""
        try:
            return from_canonical(self.spec_file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise RunError(f"{self.path} is no run directory: it has no spec.json") from None
        except OSError as error:
            raise RunError(f"cannot read {self.spec_file}: {error.strerror or error}") from None
        except (SpecError, UnicodeDecodeError) as error:
            raise RunError(f"{self.spec_file}: {error}") from None

    def write_spec(self, spec: TrainSpec) -> None:
        """Say what this run is."""
        write_atomic(self.spec_file, (canonical(spec) + "\n").encode())

    def abandon(self) -> None:
        """Forget what this run is, for another one to begin here."""
        self.metrics_file.unlink(missing_ok=True)
        self.spec_file.unlink(missing_ok=True)

    def write_record(self, record: dict[str, Any]) -> None:
        """Keep the results."""
        write_atomic(self.record_file, (json.dumps(record, indent=2) + "\n").encode())

    def read_record(self) -> dict[str, Any]:
        """The results of a finished run."""
        try:
            record: dict[str, Any] = json.loads(self.record_file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise RunError(f"{self.path} is not finished: ctrobust train --resume --out {self.path}") from None
        except ValueError as error:
            raise RunError(f"{self.record_file} is damaged: {error}") from None
        return record

    def read_metrics(self) -> list[dict[str, Any]]:
        """The metrics so far; a last line cut off by a kill is left out."""
        if not self.metrics_file.exists():
            return []
        metrics = []
        for line in self.metrics_file.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                metrics.append(json.loads(line))
            except ValueError:
                break
        return metrics

    def keep_metrics(self, up_to_epoch: int) -> None:
        """Forget the metrics of epochs after the checkpoint: they will be made again."""
        kept = [line for line in self.read_metrics() if line["epoch"] <= up_to_epoch]
        write_atomic(self.metrics_file, "".join(json.dumps(line) + "\n" for line in kept).encode())

    def add_metrics(self, line: dict[str, Any]) -> None:
        """Append one epoch."""
        try:
            with self.metrics_file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
                file.flush()
                os.fsync(file.fileno())  # the checkpoint that follows says that the line is there
        except OSError as error:
            raise RunError(f"cannot write {self.metrics_file}: {error.strerror or error}") from error
