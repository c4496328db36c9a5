"""A model, data and an attack give outcomes; every success is checked by the original model."""

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from typing import overload

import torch
from torch import Tensor, nn

from ctrobust.attacks import Attack, fuse, parse
from ctrobust.attacks.fused import FusedModel
from ctrobust.attacks.model_checks import PROBABILITIES, check_model, modes, probabilities, untouched
from ctrobust.attacks.stages import FUSE_FROM_STEPS, left_out
from ctrobust.errors import InputError
from ctrobust.evaluation.evaluation_batches import EvaluationBatches, Examples, ProgressCallback
from ctrobust.evaluation.evaluation_state import EvaluationState, NoStateStore, StateStore, cost
from ctrobust.evaluation.randomized_models import RANDOMNESS_IMAGES, RepeatedMean, is_random, repeated_distance
from ctrobust.evaluation.stage_batches import BatchRunner, StageRunner
from ctrobust.outcomes import Evaluation

MOST_CHUNK = 1 << 16


@overload
def evaluate(
    model: nn.Module,
    data: Examples,
    attack: Attack | str | None = None,
    *,
    limit: int | None = None,
    chunk: int = 256,
    fuse: bool = True,
    progress: ProgressCallback | None = None,
) -> Evaluation: ...


@overload
def evaluate(
    model: nn.Module,
    data: Examples,
    attack: Sequence[Attack | str | None],
    *,
    limit: int | None = None,
    chunk: int = 256,
    fuse: bool = True,
    progress: ProgressCallback | None = None,
) -> list[Evaluation]: ...


def evaluate(
    model: nn.Module,
    data: Examples,
    attack: Attack | str | Sequence[Attack | str | None] | None = None,
    *,
    limit: int | None = None,
    chunk: int = 256,
    fuse: bool = True,
    progress: ProgressCallback | None = None,
) -> Evaluation | list[Evaluation]:
    """Attack the first `limit` examples and return the outcome of each; without an attack, classify them.

    Misclassified images are not attacked and count as not robust. The model is put into eval mode and back, with a
    warning if it was in training mode. Each attacked image is checked to lie in the ball and the box, and only images
    that the original model misclassifies count as broken. Examples that a stage of the attack (a restart, a target
    class, one attack of an ensemble) does not break are pooled into full batches for the next stage.

    Args:
        model: takes images in [0, 1] and returns logits, which may be the attribute `logits` of its output, the first
            element of a tuple, or the entry "logits" or the only tensor of a dict.
        data: a data set of `ctrobust.data`, a DataLoader, a torch Dataset of (image, label), or a pair (images, labels)
            of tensors or NumPy arrays. Images are uint8, or floats in [0, 1].
        attack: an attack of `ctrobust.attacks`, or its text; or a list of them, for a list of evaluations with one
            clean pass. A warning names the stages that an ensemble skips because the model has too few classes.
        limit: the number of examples, from the first.
        chunk: the number of examples per batch.
        fuse: whether long attacks may use a fused copy of the model. The original model still checks every success.
        progress: called with the passes done, the passes in all and the running stage.

    Example:
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).eval()
        >>> found = evaluate(net, (torch.rand(20, 1, 28, 28), torch.arange(20) % 10), "pgd:eps=8/255,steps=5")
        >>> found.robust_accuracy <= found.accuracy
        True
        >>> both = evaluate(net, (torch.rand(20, 1, 28, 28), torch.arange(20) % 10), ["fgsm:eps=0.1", "noise:eps=0.1"])
        >>> [one.accuracy == both[0].accuracy for one in both]
        [True, True]

    Raises:
        InputError: images outside [0, 1], labels outside the classes, a model that returns NaN or probabilities.
    """
    check_model(model)
    given = attack if isinstance(attack, Sequence) and not isinstance(attack, str) else [attack]
    attacks = [parse(one) if isinstance(one, str) else one for one in given]
    if any(mode for _, mode in modes(model)):
        warnings.warn("the model is in training mode; it is evaluated in eval mode and put back", stacklevel=2)
    if not attacks:
        return []
    evaluator = Evaluator(model, data, attacks, limit=limit, chunk=chunk, fuse=fuse, progress=progress)
    evaluator.clean_logits()  # which checks the outputs of the model
    if not isinstance(model, RepeatedMean) and evaluator.draws_at_random():
        warnings.warn(
            "the model draws at random, so that an attack may succeed by one lucky pass; evaluate "
            "ct.evaluation.RepeatedMean(model, 20), whose logits are the mean of 20 passes",
            stacklevel=2,
        )
    evaluations = [evaluator.run(one, NoStateStore()) for one in attacks]
    for one, evaluation in zip(attacks, evaluations, strict=True):
        if one is not None and (missing := left_out(one, evaluation.num_classes)):
            warnings.warn(f"{one} is incomplete on so few classes: {'; '.join(missing)}", stacklevel=2)
    return evaluations if given is attack else evaluations[0]


def evaluate_each(
    model: nn.Module,
    data: Examples,
    attacks: Sequence[Attack | None],
    *,
    limit: int | None = None,
    chunk: int = 256,
    fuse: bool = True,
    progress: ProgressCallback | None = None,
    stores: Sequence[StateStore] | None = None,
) -> Iterator[Evaluation]:
    """Evaluate several attacks with one clean pass, and yield each when it is done; the model stays in eval mode.

    `stores`, one per attack, keep the progress of each evaluation.
    """
    evaluator = Evaluator(model, data, attacks, limit=limit, chunk=chunk, fuse=fuse, progress=progress)
    no_store = NoStateStore()
    for attack, store in zip(attacks, [no_store] * len(attacks) if stores is None else stores, strict=True):
        yield evaluator.run(attack, store)


class Evaluator:
    """Evaluates attacks on one model and data set; images are checked and classified once, when first needed.

    Attributes:
        fused: the fused copy that long attacks use; None where it was refused, impossible or not needed.
    """

    def __init__(
        self,
        model: nn.Module,
        data: Examples,
        attacks: Sequence[Attack | None],
        *,
        limit: int | None = None,
        chunk: int = 256,
        fuse: bool = True,
        progress: ProgressCallback | None = None,
    ) -> None:
        if not 1 <= chunk <= MOST_CHUNK:
            raise InputError(f"chunk is from 1 to {MOST_CHUNK:,}, got {chunk}")
        for attack in attacks:
            if attack is not None and not isinstance(attack, Attack):
                raise InputError(
                    f"an attack is one of ctrobust.attacks, as PGD(eps=8 / 255), or its text; got {attack!r}"
                )
            if attack is not None and attack.targeted:
                raise InputError(f"{attack} is targeted: evaluation measures misclassification, not the class reached")
        self.user_model, self.chunk, self.may_fuse = model, chunk, fuse
        self.batches = EvaluationBatches(model, data, limit, chunk)
        self.attacks, self.progress = attacks, _Progress(progress, attacks, len(self.batches.labels))
        self.model = self.batches.inputs.in_float32(model)
        self.fused: FusedModel | None = None
        self._clean: Tensor | None = None

    def clean_logits(self) -> Tensor:
        """The logits (N, C) of the clean images; the first call computes them and checks the model's outputs."""
        if self._clean is None:
            with evaluation_mode(self.user_model):
                self._clean = self.batches.clean_logits(self.model, self.progress.report)
            if probabilities(self._clean):
                raise InputError(PROBABILITIES)
            for attack in self.attacks:
                _check_classes(attack, self._clean.shape[1])
            if self.may_fuse and any(_is_long(attack) for attack in self.attacks):
                examples = self.batches.load(torch.arange(min(self.chunk, len(self._clean))))[0]
                with evaluation_mode(self.user_model):
                    copy = fuse(self.model, examples)
                self.fused = copy if isinstance(copy, FusedModel) else None
        return self._clean

    def draws_at_random(self) -> bool:
        """Whether two passes over the same first images differ, by the threshold of the first masking test."""
        x = self.batches.load(torch.arange(min(RANDOMNESS_IMAGES, len(self.batches.labels))))[0]
        with evaluation_mode(self.user_model), untouched(self.user_model, x):
            return is_random(repeated_distance(self.model, x, 2))

    def run(self, attack: Attack | None, store: StateStore, runner: BatchRunner | None = None) -> Evaluation:
        """Evaluate one attack, from the progress that its store holds; without a `runner`, in this process."""
        with evaluation_mode(self.user_model):
            clean = self.clean_logits()
            state = EvaluationState(clean, self.batches.labels, store)
            if attack is not None:
                self.progress.begin_attack()
                runner = runner or StageRunner(self.model, self.fused, self.batches.inputs)
                fused = self.uses_fused(attack)
                state.run(attack, runner, self.batches, clean, self.progress.report, fused=fused)
            return _assemble(attack, self.batches.labels, clean, state)

    def uses_fused(self, attack: Attack | None) -> bool:
        """Whether an attack runs on the fused copy."""
        return self.fused is not None and _is_long(attack)


def _is_long(attack: Attack | None) -> bool:
    return attack is not None and attack.steps >= FUSE_FROM_STEPS


def _check_classes(attack: Attack | None, classes: int) -> None:
    """Reject an attack that is undefined for this number of classes; an ensemble skips such stages instead."""
    for stage in attack.stages() if attack is not None else ():
        if not stage.optional and classes < (least := stage.attack.least_classes()):
            raise InputError(f"{attack} needs {least} classes, and the model has {classes}")


class _Progress:
    """Progress through several attacks; the estimate for later attacks assumes that every example stays robust."""

    def __init__(self, callback: ProgressCallback | None, attacks: Sequence[Attack | None], count: int) -> None:
        self.callback = callback
        self.costs = [count * sum(cost(stage) for stage in attack.stages()) for attack in attacks if attack is not None]
        self.before = self.spent = 0.0

    def begin_attack(self) -> None:
        self.before += self.spent
        self.spent = 0.0
        self.costs.pop(0)

    def report(self, done: float, total: float, stage: str) -> None:
        """Add the attacks before and after the running one."""
        self.spent = done
        if self.callback is not None:
            self.callback(self.before + done, self.before + total + sum(self.costs), stage)


def _assemble(attack: Attack | None, labels: Tensor, clean: Tensor, state: EvaluationState) -> Evaluation:
    logits = state.logits
    return Evaluation(
        attack="none" if attack is None else str(attack),
        labels=labels.cpu().to(torch.int64).numpy(),
        clean_probabilities=clean.float().softmax(1).cpu().numpy(),
        probabilities=logits.float().softmax(1).numpy(),
        clean_prediction=clean.argmax(1).cpu().numpy(),
        prediction=logits.argmax(1).numpy(),
        distance=state.distance.numpy(),
        forwards=state.forwards.numpy(),
        backwards=state.backwards.numpy(),
        unconfirmed=state.unconfirmed.numpy(),
        broken_by=None if attack is None else _broken_by(attack, state),
    )


def _broken_by(attack: Attack, state: EvaluationState) -> dict[str, int] | None:
    """How many examples each attack of an ensemble broke; None for a single attack."""
    stages = attack.stages()
    found = {str(stage.attack): 0 for stage in stages}
    if len(found) == 1:
        return None
    for number in state.broken_by[state.broken_by >= 0].tolist():
        found[str(stages[number].attack)] += 1
    return found


@contextlib.contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Put the model into eval mode, and each module back into its own mode afterwards."""
    before = modes(model)
    model.eval()
    try:
        yield
    finally:
        for module, mode in before:
            module.training = mode
