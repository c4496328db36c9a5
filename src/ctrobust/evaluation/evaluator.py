"""Model x data x attack -> outcomes, with every success checked again."""

import contextlib
import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ctrobust.attacks import Attack, fuse, parse
from ctrobust.attacks.model_checks import (
    PROBABILITIES,
    check_batch,
    check_model,
    clean_pass,
    modes,
    probabilities,
    untouched,
)
from ctrobust.attacks.stages import FUSE_FROM_STEPS, left_out
from ctrobust.data import Dataset, to_float
from ctrobust.errors import InputError
from ctrobust.evaluation.evaluation_state import EvaluationState, NoStateStore, StateStore, cost
from ctrobust.outcomes.evaluation import Evaluation

ProgressCallback = Callable[[float, float, str], None]
"""Told how much of how much is done, about, counted in passes, and what is being tried."""

Examples = Dataset | tuple[Tensor, Tensor]
"""A data set, or float images (N, ...) in [0, 1] with integer labels (N,)."""


def evaluate(
    model: nn.Module,
    data: Examples,
    attack: Attack | str | None = None,
    *,
    limit: int | None = None,
    chunk: int = 256,
    progress: ProgressCallback | None = None,
) -> Evaluation:
    """Attack the first `limit` examples and keep what became of each; None is no attack.

    Misclassified images are not attacked: they count as not robust as they are. A model in training mode is warned of,
    put in eval mode and back. Each attacked image is checked to lie in the ball and the box and is classified once
    more; only what is misclassified then counts as fooled. `chunk` examples are attacked at a time; those who survive a
    part of the attack (a restart, a target, one of an ensemble) are pooled.

    Args:
        model: takes images in [0, 1] and gives logits.
        data: a data set, or images (N, ...) in [0, 1] and labels (N,).
        attack: as `ctrobust.attacks` has them, or its text. What an ensemble cannot try on so few classes is warned of.
        limit: only the first so many.
        chunk: how many at a time.
        progress: told how far it is.

    Example:
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(784, 10)).eval()
        >>> found = evaluate(net, (torch.rand(20, 1, 28, 28), torch.arange(20) % 10), "pgd:eps=8/255,steps=5")
        >>> found.robust_accuracy <= found.accuracy
        True

    Raises:
        InputError: images outside [0, 1], labels outside the classes, a model that gives NaN or probabilities.
    """
    check_model(model)
    attack = parse(attack) if isinstance(attack, str) else attack
    if any(mode for _, mode in modes(model)):
        warnings.warn("the model is in training mode; it is evaluated in eval mode and put back", stacklevel=2)
    (evaluation,) = evaluate_each(model, data, [attack], limit=limit, chunk=chunk, progress=progress)
    if attack is not None and (missing := left_out(attack, evaluation.probabilities.shape[1])):
        warnings.warn(f"{attack} is not whole on so few classes: {'; '.join(missing)}", stacklevel=2)
    return evaluation


def evaluate_each(
    model: nn.Module,
    data: Examples,
    attacks: Sequence[Attack | None],
    *,
    limit: int | None = None,
    chunk: int = 256,
    progress: ProgressCallback | None = None,
    stores: Sequence[StateStore] | None = None,
) -> Iterator[Evaluation]:
    """The same for several attacks with one clean pass, each yielded when it is done; the model stays in eval mode.

    `keepers`, one for each attack, hold the state of what is under way.
    """
    if chunk < 1:
        raise InputError(f"chunk is at least 1, got {chunk}")
    for attack in attacks:
        if attack is not None and (isinstance(attack, type) or not hasattr(attack, "stages")):
            raise InputError(f"an attack is one of ctrobust.attacks, as PGD(eps=8 / 255), or its text; got {attack!r}")
        if attack is not None and attack.targeted:
            raise InputError(f"{attack} is targeted: evaluation asks who is misclassified, not as what")
    examples = _Chunks(model, data, limit, chunk)
    kept: Sequence[StateStore] = [NoStateStore()] * len(attacks) if stores is None else stores

    with evaluation_mode(model):
        ahead = _Ahead(progress, attacks, len(examples.labels))
        model = examples.fitting(model)
        clean = examples.clean_logits(model, ahead.report_progress)
        if probabilities(clean):
            raise InputError(PROBABILITIES)
        for attack in attacks:
            _check_classes(attack, clean.shape[1])
        fused = model
        if any(attack is not None and attack.steps >= FUSE_FROM_STEPS for attack in attacks):
            fused = fuse(model, examples.batch(torch.arange(min(chunk, len(clean))))[0])
        for attack, store in zip(attacks, kept, strict=True):
            state = EvaluationState(clean, examples.labels, store)
            if attack is not None:
                ahead.begin()
                by = fused if attack.steps >= FUSE_FROM_STEPS else model
                state.run(by, attack, examples.batch, clean, chunk, ahead.report_progress)
            yield _assemble(examples.labels, clean, state)


def _check_classes(attack: Attack | None, classes: int) -> None:
    """Refuse an attack that is undefined on so few classes, before any work; parts of an ensemble are left out."""
    for stage in attack.stages() if attack is not None else ():
        if not stage.optional and classes < (least := stage.attack.least_classes()):
            raise InputError(f"{attack} needs {least} classes, and the model has {classes}")


class _Ahead:
    """Progress through several attacks: those not begun yet count as if nobody fell."""

    def __init__(self, progress: ProgressCallback | None, attacks: Sequence[Attack | None], count: int) -> None:
        self.progress = progress
        self.costs = [count * sum(cost(stage) for stage in attack.stages()) for attack in attacks if attack is not None]
        self.before = self.spent = 0.0

    def begin(self) -> None:
        """The next attack."""
        self.before += self.spent
        self.spent = 0.0
        self.costs.pop(0)

    def report_progress(self, done: float, total: float, what: str) -> None:
        """Pass it on, with what lies before and ahead."""
        self.spent = done
        if self.progress is not None:
            self.progress(self.before + done, self.before + total + sum(self.costs), what)


class _Chunks:
    """Images, labels and keys, so many at a time, where the model is and in its precision, float32 at least."""

    def __init__(self, model: nn.Module, data: Examples, limit: int | None, size: int) -> None:
        self.images, self.labels = _examples(data, limit)
        self.size = size
        tensors = itertools.chain(model.parameters(), model.buffers())
        self.reference = next((tensor for tensor in tensors if tensor.is_floating_point()), None)
        dtype = None if self.reference is None else self.reference.dtype
        self.coarse = dtype if dtype in (torch.float16, torch.bfloat16) else None

    def fitting(self, model: nn.Module) -> nn.Module:
        """The model for these images: one of less than float32 would leave the ball by the rounding of its type."""
        return model if self.coarse is None else _Rounding(model, self.coarse)

    def batch(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Images, labels and keys of these positions."""
        x, y, keys = self.images[index], self.labels[index], index
        x = to_float(x) if x.dtype == torch.uint8 else x
        if self.reference is not None:
            device, dtype = self.reference.device, torch.float32 if self.coarse else self.reference.dtype
            x, y, keys = x.to(device, dtype), y.to(device), keys.to(device)
        check_batch(x, y, keys)
        return x, y, keys

    def clean_logits(self, model: nn.Module, progress: ProgressCallback) -> Tensor:
        """Of all images, (N, C)."""
        logits = []
        with untouched(model, self.batch(torch.arange(1))[0]):
            for index in torch.split(torch.arange(len(self.labels)), self.size):
                x, y, _ = self.batch(index)
                logits.append(clean_pass(model, x, y))
                progress(float(index[-1]) + 1, float(len(self.labels)), "clean images")
        return torch.cat(logits)


class _Rounding(nn.Module):
    """A model of less than float32, for images and logits that are not."""

    def __init__(self, model: nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.model, self.dtype = model, dtype
        self.training = model.training

    def forward(self, x: Tensor) -> Any:
        """What the model gives for the images in its own precision."""
        logits = self.model(x.to(self.dtype))
        return logits.float() if isinstance(logits, Tensor) and logits.is_floating_point() else logits


def _assemble(labels: Tensor, clean: Tensor, state: EvaluationState) -> Evaluation:
    """The outcomes from the campaign's state."""
    logits = state.logits
    return Evaluation(
        labels=labels.cpu().to(torch.int64).numpy(),
        clean_probabilities=clean.float().softmax(1).cpu().numpy(),
        probabilities=logits.float().softmax(1).numpy(),
        clean_prediction=clean.argmax(1).cpu().numpy(),
        prediction=logits.argmax(1).numpy(),
        distance=state.distance.numpy(),
        forwards=state.forwards.numpy(),
        backwards=state.backwards.numpy(),
        unconfirmed=state.unconfirmed.numpy(),
    )


def _examples(data: Examples, limit: int | None) -> tuple[Tensor, Tensor]:
    """The first `limit` images and labels."""
    if limit is not None and limit < 1:
        raise InputError(f"limit is at least 1, got {limit}")
    if isinstance(data, Dataset):
        return data.images[:limit], data.labels[:limit]
    if not (isinstance(data, tuple) and len(data) == 2 and all(isinstance(stage, Tensor) for stage in data)):
        inside = f" of {', '.join(type(stage).__name__ for stage in data)}" if isinstance(data, tuple) else ""
        raise InputError(f"data is a Dataset or a pair of tensors (images, labels), got {type(data).__name__}{inside}")
    images, labels = data
    check_batch(images, labels, None)
    return images[:limit].detach(), labels[:limit].to(torch.int64)


@contextlib.contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Eval mode, and afterwards each module's own mode again."""
    before = modes(model)
    model.eval()
    try:
        yield
    finally:
        for stage, mode in before:
            stage.training = mode
