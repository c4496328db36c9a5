"""The model, the examples and the attacks of one verdict on masking."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ctrobust.attacks import PGD, Attack, Norm
from ctrobust.attacks.fused import FusedModel
from ctrobust.attacks.model_checks import untouched
from ctrobust.errors import InputError
from ctrobust.evaluation.attack_trajectories import Trajectories, follow_pgd
from ctrobust.evaluation.evaluation_batches import EvaluationBatches, Examples
from ctrobust.evaluation.evaluation_state import MISCLASSIFIED, ROBUST, EvaluationState, NoStateStore
from ctrobust.evaluation.evaluator import Evaluator, evaluation_mode
from ctrobust.evaluation.gradient_measurements import ZeroGradient, zero_gradients
from ctrobust.evaluation.randomized_models import RepeatedMean
from ctrobust.evaluation.stage_batches import StageRunner
from ctrobust.outcomes.masking import MaskingSetting, Measurement

Mask = NDArray[np.bool_]

REPEATS = 20
"""The number of passes whose mean decides what a randomized model predicts, and over which its gradients average."""

RANDOMIZED_LIMIT = 64
"""The number of examples on which a randomized model is tested."""

PGD_STEPS = 20

WHITE_BOX = {
    "one step beats many": ("fgsm", "pgd"),
    "radius does not help": ("pgd_half", "pgd_eps", "fgsm_half", "fgsm_eps"),
    "more effort helps": ("steps", "starts"),
    "loss decides": ("ce", "margin", "dlr", "std", "sce"),
}
"""Test -> its arrays that tell which examples a gradient attack within the ball leaves robust."""


class MaskingRun:
    """What the tests measure with; passes through the model are counted.

    Attributes:
        setting: the ball, the examples and the seed.
        measured: the measurements so far, by test.
        clean: (N, C) logits of the clean images; of a randomized model the mean over repeated passes.
        report: called with the share of the running test that is done.
        other: the model that transfer attacks are made on; None without one.
        forwards, backwards: the passes since `begin`.
    """

    def __init__(
        self,
        model: nn.Module,
        data: Examples,
        *,
        eps: float,
        norm: Norm,
        limit: int | None,
        seed: int,
        chunk: int,
        randomized: bool,
        other: nn.Module | None = None,
        measured: Mapping[str, Measurement] | None = None,
    ) -> None:
        self.eps, self.norm, self.seed, self.chunk, self.other = eps, norm, seed, chunk, other
        self.measured = dict(measured or {})
        self.report: Callable[[float], None] = lambda _: None
        self.repeats = REPEATS if randomized else 1
        if randomized:
            limit = RANDOMIZED_LIMIT if limit is None else min(limit, RANDOMIZED_LIMIT)
        batches = EvaluationBatches(model, data, limit, chunk)
        with evaluation_mode(model):
            x, y, _ = batches.load(torch.arange(min(2, len(batches.labels))))
            with untouched(model, x):
                differentiable = zero_gradients(batches.inputs.in_float32(model), x, y)[1]
        single = batches.inputs.in_float32(model) if differentiable else ZeroGradient(batches.inputs.in_float32(model))
        self.model = RepeatedMean(single, self.repeats) if randomized else single
        # A randomized model is differentiated pass by pass, and the mean of repeated passes verifies each success.
        self._repeated = FusedModel(self.model, single) if randomized else None
        self.evaluator = Evaluator(self.model, data, [self.pgd(steps=100)], limit=limit, chunk=chunk)
        with evaluation_mode(model):
            self.clean = self.evaluator.clean_logits()
        self.labels = self.evaluator.batches.labels
        self.correct: Mask = (self.clean.argmax(1).cpu() == self.labels.cpu()).numpy()
        if not self.correct.any():
            raise InputError(f"none of the {len(self.labels)} images is classified correctly: nothing can be tested")
        self.setting = MaskingSetting(eps, norm, len(self.labels), self.clean.shape[1], seed, self.repeats)
        self.begin(1)

    def begin(self, attacks: int) -> None:
        """Set the counts to zero for a test that makes so many attacks."""
        self.forwards = self.backwards = 0
        self._attacks, self._attack = attacks, 0

    def pgd(self, eps: float | None = None, steps: int = PGD_STEPS, step_size: float | None = None) -> PGD:
        """PGD on cross-entropy, with the norm, seed and repeats of the run, and its eps unless another is given."""
        radius = self.eps if eps is None else eps
        return PGD(radius, steps, step_size, norm=self.norm, eot=self.repeats, seed=self.seed)

    def fgsm(self, eps: float | None = None) -> PGD:
        """FGSM, which is one step of PGD from the image itself."""
        radius = self.eps if eps is None else eps
        return replace(self.pgd(radius, 1, radius), random_start=False)

    def robust(self, attack: Attack, among: Mask) -> Mask:
        """Attack the correctly classified examples `among` (N,), and return (N,) which of them stay robust."""
        state = EvaluationState(self.clean, self.labels, NoStateStore())
        state.broken_by[torch.from_numpy(~among) & (state.broken_by == ROBUST)] = MISCLASSIFIED
        batches = self.evaluator.batches
        copy = self.evaluator.fused if self.evaluator.uses_fused(attack) else self._copy_for(attack)
        with evaluation_mode(self.model):
            runner = StageRunner(self.model, copy, batches.inputs)
            state.run(attack, runner, batches, self.clean, self._report_attack, fused=copy is not None)
        self._attack += 1
        repeats = self.repeats if copy is None else 1
        self.forwards += repeats * int(state.forwards.sum())
        self.backwards += repeats * int(state.backwards.sum())
        return (state.broken_by == ROBUST).numpy()

    def _copy_for(self, attack: Attack) -> FusedModel | None:
        return self._repeated if isinstance(attack, PGD) else None

    def _report_attack(self, done: float, total: float, _: str) -> None:
        self.report(min(1.0, (self._attack + (done / total if total else 1.0)) / self._attacks))

    def earlier(self, test: str, name: str, attack: Attack) -> Mask:
        """What an earlier test measured on all examples, or the outcome of the attack now."""
        if test in self.measured:
            found: Mask = self.measured[test].arrays[name]
            return found
        return self.robust(attack, self.correct)

    def remaining(self) -> Mask:
        """Return (N,) which examples all gradient attacks so far leave robust."""
        left = self.correct.copy()
        for test, names in WHITE_BOX.items():
            if test in self.measured:
                for name in names:
                    left &= self.measured[test].arrays.get(name, left)
        return left

    def first(self, mask: Mask, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """Load the first `count` examples of a mask: images, labels and keys."""
        index = torch.from_numpy(np.flatnonzero(mask)[:count])
        return self.evaluator.batches.load(index)

    @cached_property
    def trajectories(self) -> Trajectories:
        """All steps of PGD on every correctly classified example."""
        x, y, keys = self.first(self.correct, len(self.correct))
        with evaluation_mode(self.model):
            batches = [
                follow_pgd(self.model, *batch, self.pgd())
                for batch in zip(x.split(self.chunk), y.split(self.chunk), keys.split(self.chunk), strict=True)
            ]
        return Trajectories(
            torch.cat([one.values for one in batches], 1),
            torch.cat([one.earlier for one in batches]),
            torch.cat([one.last for one in batches]),
            sum(one.forwards for one in batches),
            sum(one.backwards for one in batches),
        )

    def spread(self, values: Tensor) -> NDArray[Any]:
        """Put values of the correctly classified examples into an array (N,) of all examples, zero elsewhere."""
        spread: NDArray[Any] = np.zeros(len(self.correct), dtype=np.bool_ if values.dtype == torch.bool else np.float64)
        spread[self.correct] = values.cpu().numpy()
        return spread
