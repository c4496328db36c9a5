"""The progress of one attack over all examples: stage after stage, on batches of the remaining examples.

A stage (one restart, one target class, one attack of an ensemble) runs on every remaining example before the next stage
begins. The outcome of each batch goes to a state store, so a killed evaluation loses at most one batch, and less within
a stage that saves a resume state (Square).
"""

import functools
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ctrobust.attacks import Attack
from ctrobust.attacks.attack_state import AttackState, ResumeState
from ctrobust.attacks.model_checks import check_logits, untouched
from ctrobust.attacks.projections import distance
from ctrobust.attacks.stages import Stage
from ctrobust.errors import CtrobustError, RunError

StateArrays = dict[str, NDArray[Any]]

ProgressCallback = Callable[[float, float, str], None]
"""Called with the forward passes done and in all, both estimates, and the name of the running stage."""

LoadBatch = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]
"""Positions (n,) -> images, labels and keys, on the model's device."""

RESUME_STATE_SECONDS = 20.0
"""The shortest time between two saved resume states of a stage."""

ROBUST, MISCLASSIFIED = -1, -2
"""Values of `broken_by` besides the number of a stage."""


class StateStore(Protocol):
    """Where the progress of an evaluation is stored."""

    def load(self) -> tuple[list[StateArrays], StateArrays]:
        """The outcomes of the finished batches, in order, and the resume state of the batch under way."""
        ...

    def append(self, outcomes: StateArrays) -> None:
        """Store the outcome of one more batch; the resume state is then obsolete."""
        ...

    def save_resume_state(self, arrays: StateArrays) -> None:
        """Store the state within a stage, replacing the one before."""
        ...


class NoStateStore:
    """Stores nothing."""

    def load(self) -> tuple[list[StateArrays], StateArrays]:
        return [], {}

    def append(self, outcomes: StateArrays) -> None:
        pass

    def save_resume_state(self, arrays: StateArrays) -> None:
        pass


class EvaluationState:
    """Outcomes of all examples so far.

    Attributes:
        logits: (N, C) of the attacked images; of the clean ones where no attack ran yet.
        distance, forwards, backwards, unconfirmed: (N,), as `Evaluation` has them.
        broken_by: (N,) the number of the stage that broke the example, ROBUST, or MISCLASSIFIED without an attack.
        stages_done: (N,) how many stages were run on the example.
    """

    FIELDS = ("logits", "distance", "forwards", "backwards", "unconfirmed", "broken_by", "stages_done")

    def __init__(self, clean: Tensor, labels: Tensor, store: StateStore) -> None:
        count, clean, labels = len(labels), _storable(clean), labels.cpu()
        self.store = store
        self.logits = clean.clone()
        self.distance = torch.zeros(count)
        self.forwards = torch.zeros(count, dtype=torch.int64)
        self.backwards = torch.zeros(count, dtype=torch.int64)
        self.unconfirmed = torch.zeros(count, dtype=torch.bool)
        self.broken_by = torch.where(clean.argmax(1) != labels, MISCLASSIFIED, ROBUST)
        self.stages_done = torch.zeros(count, dtype=torch.int64)
        batches, self.resume_arrays = store.load()
        for outcomes in batches:
            self._restore(outcomes)

    def _restore(self, outcomes: Mapping[str, NDArray[Any]]) -> None:
        """Put the stored outcomes of one batch back."""
        if set(outcomes) != {"index", *self.FIELDS}:
            raise RunError(f"the stored progress of this evaluation has the fields {', '.join(sorted(outcomes))}")
        index = torch.from_numpy(np.array(outcomes["index"]))
        for name in self.FIELDS:
            values, mine = torch.from_numpy(np.array(outcomes[name])), getattr(self, name)
            fits = index.dtype == torch.int64 and index.dim() == 1 and len(index) > 0
            if not fits or values.dtype != mine.dtype or values.shape != (len(index), *mine.shape[1:]):
                raise RunError(
                    f"the stored progress of this evaluation has {name} of {values.dtype} {tuple(values.shape)} for "
                    f"{len(index)} examples; remove the .partial file beside its outcomes to begin again"
                )
            if not (index.min() >= 0 and index.max() < len(mine)):
                raise RunError(f"the stored progress of this evaluation is of other examples than these {len(mine)}")
            mine[index] = values

    def batches(self, stage: int, size: int) -> Iterator[Tensor]:
        """Positions of the examples that remained before this stage, in batches, without the finished batches."""
        remaining = ((self.broken_by == ROBUST) | (self.broken_by == stage)).nonzero()[:, 0]
        for index in torch.split(remaining, size) if len(remaining) else ():
            if (self.stages_done[index] <= stage).all():
                yield index

    def run(
        self,
        model: nn.Module,
        attack: Attack,
        load_batch: LoadBatch,
        clean: Tensor,
        size: int,
        progress: ProgressCallback,
    ) -> None:
        """Run every stage; `model` is the user's model or its fused copy."""
        stages = attack.stages()
        costs = [cost(stage) for stage in stages]
        spent = 0.0
        for number, stage in enumerate(stages):
            later = sum(costs[number + 1 :])
            for index in self.batches(number, size):
                waiting = int(((self.broken_by == ROBUST) & (self.stages_done <= number)).sum())
                total = spent + costs[number] * waiting + int((self.broken_by == ROBUST).sum()) * later
                report = functools.partial(_report, progress, str(stage), spent, costs[number] * len(index), total)
                report(0.0)
                self._run_stage(model, attack, stage, number, index, load_batch(index), clean[index], report)
                spent += costs[number] * len(index)
                self.store.append({"index": index.numpy(), **{name: self._rows(name, index) for name in self.FIELDS}})
        progress(spent, spent, "")

    def _rows(self, name: str, index: Tensor) -> NDArray[Any]:
        rows: NDArray[Any] = getattr(self, name)[index].numpy()
        return rows

    def _run_stage(
        self,
        model: nn.Module,
        attack: Attack,
        stage: Stage,
        number: int,
        index: Tensor,
        batch: tuple[Tensor, Tensor, Tensor],
        clean: Tensor,
        report: Callable[[float], None],
    ) -> None:
        """Run one stage on one batch; the original model classifies every image that the stage returns."""
        x, y, keys = batch
        resume_state = _StoredResumeState(self, f"resume.{number}.{int(index[0])}.", report)
        with untouched(model, x):
            state = AttackState(
                model, x, y, keys, clean.to(x.device), resume_state=resume_state, verify_successes=False
            )  # fmt: skip
            stage.run(state)
            moved = _distance_within_budget(attack, state.found, x)
            with torch.no_grad():
                logits = check_logits(state.original(state.found), y)
        correct = logits.argmax(1) == y
        self.logits[index] = logits.cpu().to(self.logits.dtype)
        self.distance[index] = moved.cpu().float()
        self.forwards[index] += state.forwards.cpu()
        self.backwards[index] += state.backwards.cpu()
        if state.original is model:  # a success that only the fused copy sees is no contradiction of the model
            self.unconfirmed[index] |= (state.fooled & correct).cpu()
        self.broken_by[index] = torch.where(correct.cpu(), ROBUST, number)
        self.stages_done[index] = number + 1
        self.resume_arrays = {}


class _StoredResumeState(ResumeState):
    """The resume state of one stage on one batch, kept in the evaluation's state store."""

    def __init__(self, state: EvaluationState, prefix: str, report: Callable[[float], None]) -> None:
        self.state, self.prefix, self.report = state, prefix, report
        self.saved_at = time.monotonic()

    def read(self) -> dict[str, Tensor] | None:
        arrays = {
            name.removeprefix(self.prefix): torch.from_numpy(np.array(value))
            for name, value in self.state.resume_arrays.items()
            if name.startswith(self.prefix)
        }
        return arrays or None

    def write(self, state: Callable[[], Mapping[str, Tensor]]) -> None:
        if time.monotonic() - self.saved_at >= RESUME_STATE_SECONDS:
            arrays = {f"{self.prefix}{name}": _storable(value).numpy() for name, value in state().items()}
            self.state.store.save_resume_state(arrays)
            self.saved_at = time.monotonic()

    def report_progress(self, share: float) -> None:
        self.report(share)


def _storable(values: Tensor) -> Tensor:
    """The tensor on the CPU, in a type that NumPy has."""
    values = values.cpu()
    return values.float() if values.dtype == torch.bfloat16 else values


def _report(
    progress: ProgressCallback, stage: str, before: float, batch_cost: float, total: float, share: float
) -> None:
    progress(before + batch_cost * share, total, stage)


def cost(stage: Stage) -> float:
    """The estimated forward passes that a stage spends on a robust example."""
    return stage.attack.step_cost * stage.attack.steps


def _distance_within_budget(attack: Attack, found: Tensor, x: Tensor) -> Tensor:
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
