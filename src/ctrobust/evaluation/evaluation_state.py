"""The progress of one attack over all examples: stage after stage, on batches of the remaining examples.

A stage (one restart, one target class, one attack of an ensemble) runs on every remaining example before the next stage
begins. The outcome of each batch goes to a state store, so a killed evaluation loses at most one batch, and less within
a stage that saves a resume state (Square).
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ctrobust.attacks import Attack
from ctrobust.attacks.stages import Stage
from ctrobust.errors import RunError
from ctrobust.evaluation.evaluation_batches import EvaluationBatches, ProgressCallback
from ctrobust.evaluation.stage_batches import BatchRunner, StageBatch, StateArrays, storable

ROBUST, MISCLASSIFIED = -1, -2
"""Values of `broken_by` besides the number of a stage."""

_BEGIN_AGAIN = "remove it to begin this attack again"


class StateStore(Protocol):
    """Where the progress of an evaluation is stored. A batch is named by `StageBatch.name`, the store by `str`."""

    def load(self) -> tuple[list[StateArrays], dict[str, StateArrays]]:
        """The outcomes of the finished batches, in order, and the resume states of the batches under way."""
        ...

    def append(self, batch: str, outcomes: StateArrays) -> None:
        """Store the outcome of one more batch; its resume state is then obsolete."""
        ...

    def save_resume_state(self, batch: str, arrays: StateArrays) -> None:
        """Store the state of a batch within its stage, replacing the one before."""
        ...


class NoStateStore:
    """Stores nothing."""

    def load(self) -> tuple[list[StateArrays], dict[str, StateArrays]]:
        return [], {}

    def append(self, batch: str, outcomes: StateArrays) -> None:
        pass

    def save_resume_state(self, batch: str, arrays: StateArrays) -> None:
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
        count, clean, labels = len(labels), storable(clean), labels.cpu()
        self.store = store
        self.logits = clean.clone()
        self.distance = torch.zeros(count)
        self.forwards = torch.zeros(count, dtype=torch.int64)
        self.backwards = torch.zeros(count, dtype=torch.int64)
        self.unconfirmed = torch.zeros(count, dtype=torch.bool)
        self.broken_by = torch.where(clean.argmax(1) != labels, MISCLASSIFIED, ROBUST)
        self.stages_done = torch.zeros(count, dtype=torch.int64)
        batches, self.resume_states = store.load()
        for outcomes in batches:
            self._restore(outcomes)

    def _restore(self, outcomes: Mapping[str, NDArray[Any]]) -> None:
        """Put the stored outcomes of one batch back."""
        if set(outcomes) != {"index", *self.FIELDS}:
            raise RunError(f"{self.store} is damaged: it has the fields {', '.join(sorted(outcomes))}; {_BEGIN_AGAIN}")
        index = torch.from_numpy(np.array(outcomes["index"]))
        for name in self.FIELDS:
            values, mine = torch.from_numpy(np.array(outcomes[name])), getattr(self, name)
            fits = index.dtype == torch.int64 and index.dim() == 1 and len(index) > 0
            if not fits or values.dtype != mine.dtype or values.shape != (len(index), *mine.shape[1:]):
                raise RunError(
                    f"{self.store} is damaged: it has {name} of {values.dtype} {tuple(values.shape)} for "
                    f"{index.numel()} examples; {_BEGIN_AGAIN}"
                )
            if not (index.min() >= 0 and index.max() < len(mine)):
                raise RunError(f"{self.store} is of other examples than these {len(mine)}; {_BEGIN_AGAIN}")
            mine[index] = values

    def batches(self, stage: int, size: int) -> Iterator[Tensor]:
        """Positions of the examples that remained before this stage, in batches, without the finished batches."""
        remaining = ((self.broken_by == ROBUST) | (self.broken_by == stage)).nonzero()[:, 0]
        for index in torch.split(remaining, size) if len(remaining) else ():
            if (self.stages_done[index] <= stage).all():
                yield index

    def run(
        self,
        attack: Attack,
        runner: BatchRunner,
        data: EvaluationBatches,
        clean: Tensor,
        progress: ProgressCallback,
        *,
        fused: bool,
    ) -> None:
        """Run every stage; the next one begins when all batches of the one before are done."""
        stages = attack.stages()
        costs = [cost(stage) for stage in stages]
        spent = 0.0
        for number, stage in enumerate(stages):
            observer = _StageObserver(self, progress, stage, number, spent, sum(costs[number + 1 :]))
            batches = (
                self._batch(attack, number, fused, index, data, clean) for index in self.batches(number, data.size)
            )
            runner.run(batches, observer)
            spent = observer.spent
        progress(spent, spent, "")

    def _batch(
        self, attack: Attack, stage: int, fused: bool, index: Tensor, data: EvaluationBatches, clean: Tensor
    ) -> StageBatch:
        images, labels, logits = (storable(one[index.to(one.device)]) for one in (data.images, data.labels, clean))
        batch = StageBatch(attack, stage, fused, index.numpy(), images.numpy(), labels.numpy(), logits.numpy())
        return replace(batch, resume=self.resume_states.get(batch.name, {}))

    def record(self, batch: StageBatch, outcome: StateArrays) -> None:
        """Take over and store what came of a batch."""
        index, found = torch.from_numpy(batch.index), {name: torch.from_numpy(rows) for name, rows in outcome.items()}
        self.logits[index] = found["logits"].to(self.logits.dtype)
        self.distance[index] = found["distance"]
        self.forwards[index] += found["forwards"]
        self.backwards[index] += found["backwards"]
        self.unconfirmed[index] |= found["unconfirmed"]
        self.broken_by[index] = torch.where(found["broken"], batch.stage, ROBUST)
        self.stages_done[index] = batch.stage + 1
        self.resume_states.pop(batch.name, None)
        rows = {name: getattr(self, name)[index].numpy() for name in self.FIELDS}
        self.store.append(batch.name, {"index": batch.index, **rows})

    def save_resume_state(self, batch: StageBatch, arrays: StateArrays) -> None:
        self.resume_states[batch.name] = arrays
        self.store.save_resume_state(batch.name, arrays)


class _StageObserver:
    """Takes the outcomes of one stage into the evaluation's state, and reports the progress of all running batches.

    Attributes:
        spent: the estimated forward passes of the finished batches, those of earlier stages included.
    """

    def __init__(
        self,
        state: EvaluationState,
        progress: ProgressCallback,
        stage: Stage,
        number: int,
        spent: float,
        later: float,
    ) -> None:
        self.state, self.progress, self.stage, self.number = state, progress, stage, number
        self.spent, self.cost, self.later = spent, cost(stage), later
        self.running: dict[str, float] = {}

    def begin(self, batch: StageBatch) -> None:
        self.report(batch, 0.0)

    def report(self, batch: StageBatch, share: float) -> None:
        self.running[batch.name] = share * len(batch.index)
        robust = self.state.broken_by == ROBUST
        waiting = int((robust & (self.state.stages_done <= self.number)).sum())
        total = self.spent + self.cost * waiting + int(robust.sum()) * self.later
        self.progress(self.spent + self.cost * sum(self.running.values()), total, str(self.stage))

    def save(self, batch: StageBatch, resume: StateArrays) -> None:
        self.state.save_resume_state(batch, resume)

    def finish(self, batch: StageBatch, outcome: StateArrays) -> None:
        del self.running[batch.name]
        self.spent += self.cost * len(batch.index)
        self.state.record(batch, outcome)


def cost(stage: Stage) -> float:
    """The estimated forward passes that a stage spends on a robust example."""
    return stage.attack.step_cost * stage.attack.steps
