"""Accuracy against the radius: one attack at rising radii, each begun where the one before ended."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from ctrobust.attacks import Attack, parse
from ctrobust.attacks.attack_state import AttackState
from ctrobust.attacks.model_checks import check_model, untouched
from ctrobust.errors import InputError
from ctrobust.evaluation.evaluation_batches import Examples, ProgressCallback
from ctrobust.evaluation.evaluation_state import NoStateStore, StateStore
from ctrobust.evaluation.evaluator import Evaluator, evaluation_mode
from ctrobust.evaluation.stage_batches import StateArrays, distance_within_budget
from ctrobust.outcomes.curve import RobustnessCurve, check_radii

CURVE_FIELDS = {"robust_to": np.float64, "broken_at": np.float64, "forwards": np.int64, "backwards": np.int64}
"""What is stored of each example of a curve, with its type."""


def robustness_curve(
    model: nn.Module,
    data: Examples,
    attack: Attack | str,
    radii: Sequence[float],
    *,
    bisections: int = 0,
    limit: int | None = None,
    chunk: int = 256,
    fuse: bool = True,
    progress: ProgressCallback | None = None,
    store: StateStore | None = None,
) -> RobustnessCurve:
    """Attack the first `limit` examples at each radius, from the smallest, and return where each one is broken.

    An example that is broken at a radius is not attacked at larger ones, and counts as broken there: the adversarial
    image lies in every larger ball. The first restart of a gradient attack of several steps begins at the image that it
    reached at the radius before; Square, whose first queries need its own start, does not. `bisections` is how often
    the interval that holds an example's minimal radius is halved.

    Args:
        model: takes images in [0, 1] and returns logits.
        data: as for `ctrobust.evaluate`.
        attack: an attack, or its text; its own eps is replaced by each radius, and with it a default step size.
        radii: positive and rising.
        bisections: how often the interval of each broken example is halved.
        limit: the number of examples, from the first.
        chunk: the number of examples per batch.
        fuse: whether a long attack may use a fused copy of the model.
        progress: called with the batches done, the batches in all and the attack.
        store: where the outcomes of finished batches are kept, so that a killed curve resumes.

    Example:
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).eval()
        >>> images, labels = torch.rand(20, 1, 28, 28), torch.arange(20) % 10
        >>> curve = robustness_curve(net, (images, labels), "pgd:eps=0.1,steps=5", [0.01, 0.02, 0.04])
        >>> curve.robust_accuracies == tuple(sorted(curve.robust_accuracies, reverse=True))
        True
    """
    check_model(model)
    check_radii(list(radii))
    if bisections < 0:
        raise InputError(f"bisections is at least 0, got {bisections}")
    given = parse(attack) if isinstance(attack, str) else attack
    attacks = [_at_radius(given, float(radius)) for radius in radii]
    evaluator = Evaluator(model, data, attacks[-1:], limit=limit, chunk=chunk, fuse=fuse)
    with evaluation_mode(model):
        clean = evaluator.clean_logits()
        runner = _CurveRunner(evaluator, attacks, bisections)
        labels = evaluator.batches.labels
        found = {name: np.zeros(len(labels), kind) for name, kind in CURVE_FIELDS.items()}
        for outcome in runner.run(store or NoStateStore(), progress or (lambda *_: None)):
            for name in CURVE_FIELDS:
                found[name][outcome["index"]] = outcome[name]
    return RobustnessCurve(
        attack=str(attacks[-1]),
        radii=np.array(radii, np.float64),
        labels=labels.cpu().to(torch.int64).numpy(),
        clean_prediction=clean.argmax(1).cpu().numpy(),
        **found,
    )


def _at_radius(attack: Attack, eps: float) -> Attack:
    return dataclasses.replace(attack, eps=eps)  # type: ignore[type-var]


def _report(progress: ProgressCallback, done: int, total: int, attack: str, part: float) -> None:
    progress(done + part, total, attack)


class _CurveRunner:
    """Runs an attack at all radii on one batch of examples after the other.

    Attributes:
        evaluator: holds the examples, the model and its fused copy.
        attacks: the attack at each radius, rising.
        bisections: how often the interval of a broken example is halved.
    """

    def __init__(self, evaluator: Evaluator, attacks: Sequence[Attack], bisections: int) -> None:
        self.evaluator, self.attacks, self.bisections = evaluator, attacks, bisections

    def run(self, store: StateStore, progress: ProgressCallback) -> Iterator[StateArrays]:
        """Yield the outcome of each batch, first of those that are stored."""
        batches = torch.split(torch.arange(len(self.evaluator.batches.labels)), self.evaluator.chunk)
        stored = {int(outcome["index"][0]): outcome for outcome in store.load()[0] if len(outcome.get("index", ()))}
        for number, index in enumerate(batches):
            outcome = stored.get(int(index[0]))
            if outcome is None or not np.array_equal(outcome["index"], index.numpy()):
                report = functools.partial(_report, progress, number, len(batches), str(self.attacks[-1]))
                outcome = self._run_batch(index, report)
                store.append(f"{int(index[0])}", outcome)
            yield outcome
        progress(len(batches), len(batches), "")

    def _run_batch(self, index: Tensor, report: Callable[[float], None]) -> StateArrays:
        batch = _CurveBatch(self.evaluator, index)
        parts = len(self.attacks) + self.bisections
        for number, attack in enumerate(self.attacks):
            batch.attack(attack, batch.broken_at.isinf().nonzero()[:, 0])
            report((number + 1) / parts)
        for number in range(self.bisections):
            middle = (batch.robust_to + batch.broken_at) / 2
            open_ = (batch.robust_to >= 0) & batch.broken_at.isfinite()
            for eps in middle[open_].unique().tolist():
                batch.attack(_at_radius(self.attacks[0], eps), (open_ & (middle == eps)).nonzero()[:, 0])
            report((len(self.attacks) + number + 1) / parts)
        return {"index": index.numpy(), **{name: getattr(batch, name).numpy() for name in CURVE_FIELDS}}


class _CurveBatch:
    """One batch of examples, and what is known of their minimal radii.

    Attributes:
        robust_to, broken_at: (n,) float64, the interval of each example's minimal radius, as `RobustnessCurve` has it.
        forwards, backwards: (n,) int64.
        images: (n, ...) where each example is at the radius `robust_to`: the next attack begins there.
    """

    def __init__(self, evaluator: Evaluator, index: Tensor) -> None:
        self.evaluator = evaluator
        self.x, self.y, self.keys = evaluator.batches.load(index)
        self.clean = evaluator.clean_logits()[index].to(self.x.device)
        correct = (self.clean.argmax(1) == self.y).cpu()
        self.robust_to = torch.where(correct, 0.0, -1.0).double()
        self.broken_at = torch.where(correct, torch.inf, 0.0).double()
        self.forwards, self.backwards = (torch.zeros(len(index), dtype=torch.int64) for _ in range(2))
        self.images = self.x.clone()

    def attack(self, attack: Attack, rows: Tensor) -> None:
        """Attack these rows of the batch and narrow the intervals of their minimal radii."""
        if not len(rows):
            return
        fused = self.evaluator.fused if self.evaluator.uses_fused(attack) else None
        model, at = fused or self.evaluator.model, rows.to(self.x.device)
        x, y = self.x[at], self.y[at]
        begun = attack.steps > 1 and bool((self.robust_to[rows] > 0).all())  # a single step is from the image itself
        warm = self.images[at] if begun else None
        with untouched(model, x):
            state = AttackState(model, x, y, self.keys[at], self.clean[at], warm_start=warm)
            for stage in attack.stages():
                if not state.fooled.all():
                    stage.run(state)
            distance_within_budget(attack, state.found, x)
        broken = state.fooled.cpu()
        self.broken_at[rows[broken]] = attack.eps
        self.robust_to[rows[~broken]] = attack.eps
        self.images[at[~state.fooled]] = state.found[~state.fooled]
        self.forwards[rows] += state.forwards.cpu()
        self.backwards[rows] += state.backwards.cpu()
