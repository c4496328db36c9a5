"""One stage of an attack on one batch of examples: what a process needs to run it, and what comes of it."""

import functools
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ctrobust.attacks import Attack
from ctrobust.attacks.attack_state import AttackState, ResumeState
from ctrobust.attacks.fused import FusedModel
from ctrobust.attacks.model_checks import check_logits, untouched
from ctrobust.attacks.projections import distance
from ctrobust.errors import CtrobustError
from ctrobust.evaluation.evaluation_batches import ModelInputs

StateArrays = dict[str, NDArray[Any]]

RESUME_STATE_SECONDS = 20.0
"""The shortest time between two saved resume states of a stage."""


@dataclass(frozen=True, eq=False)
class StageBatch:
    """One batch of one stage, with everything besides the model that is needed to run it.

    Attributes:
        attack: the attack; `stage` is the number of its stage, from 0.
        fused: whether the stage runs on the fused copy of the model.
        index: (n,) int64, the positions of the examples, which are the keys of their random draws.
        images, labels: of these examples, as the data set has them.
        clean: (n, C) the logits of the clean images.
        resume: the state within the stage to resume from; empty at its beginning.
    """

    attack: Attack
    stage: int
    fused: bool
    index: NDArray[np.int64]
    images: NDArray[Any]
    labels: NDArray[np.int64]
    clean: NDArray[Any]
    resume: StateArrays = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The stage and the first position, which no other batch of the evaluation has together."""
        return f"{self.stage}-{self.index[0]}"


class BatchObserver(Protocol):
    """Learns how batches proceed."""

    def begin(self, batch: StageBatch) -> None:
        """A batch was started, or started again."""
        ...

    def report(self, batch: StageBatch, share: float) -> None:
        """A share of the batch is done."""
        ...

    def save(self, batch: StageBatch, resume: StateArrays) -> None:
        """The batch reached a state from which it can be resumed."""
        ...

    def finish(self, batch: StageBatch, outcome: StateArrays) -> None:
        """The batch is done."""
        ...


class BatchRunner(Protocol):
    """Runs the batches of a stage, which do not depend on each other, in any order."""

    def run(self, batches: Iterator[StageBatch], observer: BatchObserver) -> None:
        """Return when all batches are done."""
        ...


class StageRunner:
    """Runs batches in this process, one after the other.

    Attributes:
        model: the model, in eval mode; `fused` is its fused copy, if there is one.
        inputs: how the model takes images.
        resume_seconds: the shortest time between two saved resume states.
    """

    def __init__(
        self, model: nn.Module, fused: FusedModel | None, inputs: ModelInputs, resume_seconds: float | None = None
    ) -> None:
        self.model, self.fused, self.inputs = model, fused, inputs
        self.resume_seconds = RESUME_STATE_SECONDS if resume_seconds is None else resume_seconds

    def run(self, batches: Iterator[StageBatch], observer: BatchObserver) -> None:
        for batch in batches:
            observer.begin(batch)
            save, report = functools.partial(observer.save, batch), functools.partial(observer.report, batch)
            observer.finish(batch, self.run_batch(batch, save, report))

    def run_batch(
        self, batch: StageBatch, save: Callable[[StateArrays], None], report: Callable[[float], None]
    ) -> StateArrays:
        """Run one stage on one batch; the original model classifies every image that the stage returns.

        The outcome has for each example the `logits` of its attacked image, the `distance` from the clean image, the
        `forwards` and `backwards` spent, and whether it is `broken` or its success `unconfirmed`.
        """
        model = self.fused if batch.fused and self.fused is not None else self.model
        x, y, keys = self.inputs.place(*map(torch.from_numpy, (batch.images, batch.labels, batch.index)))
        clean = torch.from_numpy(batch.clean).to(x.device)
        resume_state = _BatchResumeState(batch.resume, save, report, self.resume_seconds)
        with untouched(model, x):
            state = AttackState(model, x, y, keys, clean, resume_state=resume_state, verify_successes=False)
            batch.attack.stages()[batch.stage].run(state)
            moved = distance_within_budget(batch.attack, state.found, x)
            with torch.no_grad():
                logits = check_logits(state.original(state.found), y)
        broken = logits.argmax(1) != y
        # a success that only the fused copy sees is no contradiction of the model
        unconfirmed = state.fooled & ~broken & (state.original is model)
        outcome = {
            "logits": logits, "distance": moved.float(), "forwards": state.forwards, "backwards": state.backwards,
            "unconfirmed": unconfirmed, "broken": broken,
        }  # fmt: skip
        return {name: storable(values).numpy() for name, values in outcome.items()}


class _BatchResumeState(ResumeState):
    """The resume state of one stage on one batch."""

    def __init__(
        self,
        stored: StateArrays,
        save: Callable[[StateArrays], None],
        report: Callable[[float], None],
        seconds: float,
    ) -> None:
        self.stored, self.save, self.report, self.seconds = stored, save, report, seconds
        self.saved_at = time.monotonic()

    def read(self) -> dict[str, Tensor] | None:
        return {name: torch.from_numpy(np.array(value)) for name, value in self.stored.items()} or None

    def write(self, state: Callable[[], Mapping[str, Tensor]]) -> None:
        if time.monotonic() - self.saved_at >= self.seconds:
            self.save({name: storable(value).numpy() for name, value in state().items()})
            self.saved_at = time.monotonic()

    def report_progress(self, share: float) -> None:
        self.report(share)


def storable(values: Tensor) -> Tensor:
    """The tensor on the CPU, in a type that NumPy has."""
    values = values.cpu()
    return values.float() if values.dtype == torch.bfloat16 else values


def distance_within_budget(attack: Attack, found: Tensor, x: Tensor) -> Tensor:
    """The distances (n,) of the images from x; raises if an attack left its ball or the box."""
    moved = distance(found, x, attack.norm)
    low, high = found.aminmax()
    largest, low, high = torch.stack([moved.max().to(low), low, high]).tolist()
    rounding = (4 if attack.norm == "linf" else 64) * torch.finfo(x.dtype).eps * max(1.0, attack.eps)
    if not (largest <= attack.eps + rounding and low >= 0 and high <= 1):
        raise CtrobustError(
            f"{attack} left its ball or the box: distance {largest:.6g} of {attack.eps:.6g}, "
            f"values {low:.6g} to {high:.6g}"
        )
    return moved
