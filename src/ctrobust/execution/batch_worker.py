"""What a worker of a sharded evaluation does, wherever it runs: it builds the network once and runs batches on it."""

import hashlib
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from numpy.typing import NDArray

from ctrobust.attacks import fuse
from ctrobust.attacks.fused import FusedModel
from ctrobust.errors import CtrobustError, RunError
from ctrobust.evaluation import ModelInputs, StageBatch, StageRunner, StateArrays
from ctrobust.models import WeightsFile
from ctrobust.models.tensor_files import parse_tensors
from ctrobust.training import keep_freed_memory


@dataclass(frozen=True, eq=False)
class WorkerSettings:
    """What a worker needs besides its batches.

    Attributes:
        weights: the weights file, which the worker reads if it can; `sha256` is that of its bytes.
        examples: the first images, on which the fused copy is compared with the original as in the coordinator.
        fused: whether there is a fused copy.
        threads: the number of CPU threads.
        resume_seconds: the shortest time between two resume states of a batch.
    """

    weights: Path
    sha256: str
    examples: NDArray[Any]
    fused: bool
    threads: int
    resume_seconds: float


class WorkerReport(NamedTuple):
    """What a worker reports of its batch.

    `value` is the share that is done, a resume state, the outcome, the exception that was raised, or how the worker
    died; `cpu_seconds` is what a finished batch took.
    """

    kind: Literal["share", "resume", "outcome", "error", "died"]
    value: Any
    cpu_seconds: float = 0.0


class BatchWorker:
    """Runs batches; `fetch` returns the bytes of the weights where their file cannot be read."""

    def __init__(self, settings: WorkerSettings, fetch: Callable[[], bytes] | None = None) -> None:
        self.settings, self.fetch = settings, fetch
        self._runner: StageRunner | None = None

    @property
    def runner(self) -> StageRunner:
        """The network, which is built when it is first needed."""
        if self._runner is None:
            keep_freed_memory()
            self._runner = self._build()
        return self._runner

    def _build(self) -> StageRunner:
        settings = self.settings
        content = _content(settings, self.fetch)
        model = WeightsFile(settings.weights, settings.sha256, *parse_tensors(content, settings.weights)).build()
        inputs = ModelInputs(model)
        original = inputs.in_float32(model)
        if not settings.fused:
            return StageRunner(original, None, inputs, settings.resume_seconds)
        positions = torch.arange(len(settings.examples))
        copy = fuse(original, inputs.place(torch.tensor(settings.examples), positions, positions)[0])
        if not isinstance(copy, FusedModel):
            raise CtrobustError("a worker's fused copy of the network computes otherwise; add --no-fuse")
        return StageRunner(original, copy, inputs, settings.resume_seconds)

    def run(
        self, batch: StageBatch, save: Callable[[StateArrays], None], report: Callable[[float], None]
    ) -> WorkerReport:
        """Run one batch; an exception becomes a report, so that the coordinator can raise it."""
        begun = time.process_time()
        try:
            torch.set_num_threads(self.settings.threads)  # of the calling thread
            outcome = self.runner.run_batch(batch, save, report)
        except CtrobustError as error:
            return WorkerReport("error", error)
        except Exception as error:
            internal = CtrobustError(f"internal error in a worker: {type(error).__name__}: {error}")
            internal.add_note(traceback.format_exc())
            return WorkerReport("error", internal)
        return WorkerReport("outcome", outcome, time.process_time() - begun)


def _content(settings: WorkerSettings, fetch: Callable[[], bytes] | None) -> bytes:
    """The bytes of the weights: those of the file, unless it cannot be read here or is another one."""
    try:
        content = settings.weights.read_bytes()
    except OSError:
        content = b""
    if hashlib.sha256(content).hexdigest() == settings.sha256:
        return content
    if fetch is None:
        raise RunError(f"{settings.weights} was changed or removed while it was being evaluated; run the command again")
    return fetch()
