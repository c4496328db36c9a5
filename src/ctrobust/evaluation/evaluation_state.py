"""One attack on all examples, part after part, survivors pooled into full batches; it can be taken up again.

A part (a restart, a target class, one attack of an ensemble) is tried on everyone who still stands before the next one
begins. After each batch the state goes to a keeper, so that a killed evaluation loses one batch at most, and within a
part that keeps a notebook (Square) less than that.
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
from ctrobust.attacks.square import Square
from ctrobust.attacks.stages import Stage
from ctrobust.errors import CtrobustError, InputError

Arrays = dict[str, NDArray[Any]]

Advance = Callable[[float, float, str], None]
"""Told how many passes of how many are done, about, and what is being tried."""

Batch = Callable[[Tensor], tuple[Tensor, Tensor, Tensor]]
"""Positions (n,) -> images, labels and keys, where the model is."""

RESUME_STATE_SECONDS = 20.0
"""A part's notebook is kept that often."""


class StateStore(Protocol):
    """Where the state of an evaluation under way is kept."""

    def load(self) -> Arrays | None:
        """What was saved last, None at the beginning."""
        ...

    def save(self, arrays: Arrays) -> None:
        """Keep it, in the place of what was there."""
        ...


class NoStateStore:
    """Keeps nothing."""

    def load(self) -> Arrays | None:
        """Nothing."""
        return None

    def save(self, arrays: Arrays) -> None:
        """Nowhere."""


class EvaluationState:
    """The state: outcomes so far (N,), which part each example fell to (-1: stands), how many were tried on it."""

    FIELDS = ("logits", "distance", "forwards", "backwards", "unconfirmed", "broken_by", "stages_done")

    def __init__(self, clean: Tensor, labels: Tensor, store: StateStore) -> None:
        count, clean, labels = len(labels), _storable(clean), labels.cpu()
        self.store = store
        self.logits = clean.clone()
        self.distance = torch.zeros(count)
        self.forwards = torch.zeros(count, dtype=torch.int64)
        self.backwards = torch.zeros(count, dtype=torch.int64)
        self.unconfirmed = torch.zeros(count, dtype=torch.bool)
        misclassified = clean.argmax(1) != labels
        self.broken_by = torch.where(misclassified, -2, -1)  # -2: needs no attack
        self.stages_done = torch.zeros(count, dtype=torch.int64)
        self.saved_resume_state: Arrays = {}
        if (kept := store.load()) is not None:
            self._restore(kept)

    def _restore(self, kept: Mapping[str, NDArray[Any]]) -> None:
        for name in self.FIELDS:
            new, old = torch.from_numpy(np.array(kept[name])), getattr(self, name)
            if new.shape != old.shape or new.dtype != old.dtype:
                raise InputError(f"the evaluation under way has {name} of {new.dtype} {tuple(new.shape)}")
            setattr(self, name, new)
        self.saved_resume_state = {name: value for name, value in kept.items() if name.startswith("note.")}

    def save(self) -> None:
        """Hand the state to the keeper."""
        self.store.save({name: getattr(self, name).numpy() for name in self.FIELDS} | self.saved_resume_state)

    def batches(self, stage: int, size: int) -> Iterator[Tensor]:
        """Positions of who stood before this part, so many at a time, without the batches that are done."""
        remaining = ((self.broken_by == -1) | (self.broken_by == stage)).nonzero()[:, 0]
        for index in torch.split(remaining, size) if len(remaining) else ():
            if (self.stages_done[index] <= stage).all():
                yield index

    def run(self, model: nn.Module, attack: Attack, batch: Batch, clean: Tensor, size: int, advance: Advance) -> None:
        """Try every part; `model` is the user's or its prepared copy."""
        stages = attack.stages()
        weights = [cost(stage) for stage in stages]
        spent = 0.0
        for number, stage in enumerate(stages):
            after = sum(weights[number + 1 :])
            for index in self.batches(number, size):
                left = int(((self.broken_by == -1) & (self.stages_done <= number)).sum())
                beyond = int((self.broken_by == -1).sum()) * after

                total = spent + weights[number] * left + beyond
                report_progress = functools.partial(
                    _report_progress, advance, str(stage), spent, weights[number] * len(index), total
                )
                report_progress(0.0)
                self._attack(model, attack, stage, number, index, batch(index), clean[index], report_progress)
                spent += weights[number] * len(index)
                self.save()
        advance(spent, spent, "")

    def _attack(
        self,
        model: nn.Module,
        attack: Attack,
        stage: Stage,
        number: int,
        index: Tensor,
        batch: tuple[Tensor, Tensor, Tensor],
        clean: Tensor,
        report_progress: Callable[[float], None],
    ) -> None:
        """One part on one batch: the images it found are checked, classified again, and forgotten."""
        x, y, keys = batch
        resume_state = _StoredResumeState(self, f"note.{number}.{int(index[0])}.", report_progress)
        with untouched(model, x):
            state = AttackState(model, x, y, keys, clean.to(x.device), resume_state=resume_state)
            stage.run(state)
            far = _inside(attack, state.found, x)
            with torch.no_grad():
                logits = check_logits(state.original(state.found), y)
        right = logits.argmax(1) == y
        self.logits[index] = logits.cpu().to(self.logits.dtype)
        self.distance[index] = far.cpu().float()
        self.forwards[index] += state.forwards.cpu()
        self.backwards[index] += state.backwards.cpu()
        self.unconfirmed[index] |= (state.fooled & right).cpu()
        self.broken_by[index] = torch.where(right.cpu(), -1, number)
        self.stages_done[index] = number + 1
        self.saved_resume_state = {}


class _StoredResumeState(ResumeState):
    """The pages of one part on one batch, kept with the campaign."""

    def __init__(self, state: EvaluationState, prefix: str, report_progress: Callable[[float], None]) -> None:
        self.state, self.prefix, self._report_progress = state, prefix, report_progress
        self.saved = time.monotonic()

    def read(self) -> dict[str, Tensor] | None:
        """What this part wrote about this batch before it was interrupted."""
        pages = {
            name.removeprefix(self.prefix): torch.from_numpy(np.array(value))
            for name, value in self.state.saved_resume_state.items()
            if name.startswith(self.prefix)
        }
        return pages or None

    def write(self, state: Callable[[], Mapping[str, Tensor]]) -> None:
        """Keep the state from time to time."""
        if time.monotonic() - self.saved >= RESUME_STATE_SECONDS:
            self.state.saved_resume_state = {
                f"{self.prefix}{name}": _storable(value).numpy() for name, value in state().items()
            }
            self.state.save()
            self.saved = time.monotonic()

    def report_progress(self, share: float) -> None:
        """Pass it on."""
        self._report_progress(share)


def _storable(values: Tensor) -> Tensor:
    """On the CPU, and in a type that NumPy has."""
    values = values.cpu()
    return values.float() if values.dtype == torch.bfloat16 else values


def _report_progress(advance: Advance, what: str, before: float, weight: float, total: float, share: float) -> None:
    """So much of a batch is done."""
    advance(before + weight * share, total, what)


def cost(stage: Stage) -> float:
    """About how many forward passes a part spends on an example that stands; a gradient is worth three."""
    attack = stage.attack
    return float(attack.steps) if isinstance(attack, Square) else 3.0 * attack.steps


def _inside(attack: Attack, found: Tensor, x: Tensor) -> Tensor:
    """How far the images are from x, (n,); refuses an attack that left its ball or the box."""
    far = distance(found, x, attack.norm)
    low, high = (value.item() for value in found.aminmax())
    rounding = (4 if attack.norm == "linf" else 64) * torch.finfo(x.dtype).eps * max(1.0, attack.eps)
    if not (far.max().item() <= attack.eps + rounding and low >= 0 and high <= 1):
        raise CtrobustError(
            f"{attack} left its ball or the box: distance {far.max().item():.6g} of {attack.eps:.6g}, "
            f"values {low:.6g} to {high:.6g}"
        )
    return far
