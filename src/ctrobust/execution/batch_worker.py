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
from torch import nn

from ctrobust.attacks import fuse
from ctrobust.attacks.fused import FusedModel
from ctrobust.errors import CtrobustError, InputError, RunError
from ctrobust.evaluation import ModelInputs, RepeatedMean, StageBatch, StageRunner, StateArrays
from ctrobust.models import WeightsFile, user_model
from ctrobust.models.tensor_files import parse_tensors
from ctrobust.training import keep_freed_memory


@dataclass(frozen=True)
class UserModelCall:
    """The arguments of `ctrobust.models.user_model`, all of them from the user's command line."""

    factory: str
    weights: Path | None
    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None


@dataclass(frozen=True, eq=False)
class WorkerSettings:
    """What a worker needs besides its batches.

    Attributes:
        weights: the weights file, which the worker reads if it can.
        sha256: of the file's bytes, or of the network of the user.
        examples: the first images, on which the fused copy is compared with the original as in the coordinator.
        fused: whether there is a fused copy.
        threads: the number of CPU threads.
        resume_seconds: the shortest time between two resume states of a batch.
        factory: what the user names to build a network of their own, which was trained here.
        user_model: how to build a network of the user that was trained elsewhere, in place of the weights file.
        repeats: the passes over the network that are averaged.
    """

    weights: Path
    sha256: str
    examples: NDArray[Any]
    fused: bool
    threads: int
    resume_seconds: float
    factory: str | None = None
    user_model: UserModelCall | None = None
    repeats: int = 1


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
        model = self._trained_network() if settings.user_model is None else _call(settings.user_model, settings.sha256)
        model = RepeatedMean(model, settings.repeats) if settings.repeats > 1 else model
        inputs = ModelInputs(model)
        original = inputs.in_float32(model)
        if not settings.fused:
            return StageRunner(original, None, inputs, settings.resume_seconds)
        positions = torch.arange(len(settings.examples))
        copy = fuse(original, inputs.place(torch.tensor(settings.examples), positions, positions)[0])
        if not isinstance(copy, FusedModel):
            raise CtrobustError("a worker's fused copy of the network computes otherwise; add --no-fuse")
        return StageRunner(original, copy, inputs, settings.resume_seconds)

    def _trained_network(self) -> nn.Module:
        settings, path = self.settings, self.settings.weights
        content = _content(path, settings.sha256, self.fetch)
        return WeightsFile(path, settings.sha256, *parse_tensors(content, path), settings.factory).build()

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


def _call(call: UserModelCall, sha256: str) -> nn.Module:
    """Build the network of the user's factory, and check that it is that of the coordinator."""
    found = user_model(call.factory, call.weights, call.mean, call.std)
    if found.sha256 != sha256:
        raise InputError(
            f"{call.factory} builds another network in each process; let it load its weights or draw them from torch's "
            "generator, or leave out --workers"
        )
    return found.build()


def _content(path: Path, sha256: str, fetch: Callable[[], bytes] | None) -> bytes:
    """The bytes of the weights: those of the file, unless it cannot be read here or is another one."""
    try:
        content = path.read_bytes()
    except OSError:
        content = b""
    if hashlib.sha256(content).hexdigest() == sha256:
        return content
    if fetch is None:
        raise RunError(f"{path} was changed or removed while it was being evaluated; run the command again")
    return fetch()
