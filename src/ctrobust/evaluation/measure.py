"""Model x data x attack -> outcomes, with every success checked again."""

import contextlib
import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn

from ctrobust.attacks import Attack, prepare
from ctrobust.attacks.guards import check_batch, clean_pass, modes, untouched
from ctrobust.attacks.parts import WORTH_PREPARING
from ctrobust.data import Dataset, to_float
from ctrobust.errors import InputError
from ctrobust.evaluation.campaign import Campaign, Forgetful, Keeper, cost
from ctrobust.evaluation.outcomes import Evaluation

Watch = Callable[[float, float, str], None]
"""Told how much of how much is done, about, counted in passes, and what is being tried."""

Examples = Dataset | tuple[Tensor, Tensor]
"""A data set, or float images (N, ...) in [0, 1] with integer labels (N,)."""


def evaluate(
    model: nn.Module,
    data: Examples,
    attack: Attack | None = None,
    *,
    limit: int | None = None,
    chunk: int = 256,
    watch: Watch | None = None,
) -> Evaluation:
    """Attack the first `limit` examples and keep what became of each; None is no attack.

    A model in training mode is warned of, put in eval mode and back. Each attacked image is checked to lie in the ball
    and the box and is classified once more; only what is misclassified then counts as fooled. `chunk` examples are
    attacked at a time; those who survive a part of the attack (a restart, a target, one of an ensemble) are pooled.

    Raises:
        InputError: images outside [0, 1], labels outside the classes, a model that gives NaN or probabilities.
    """
    if any(mode for _, mode in modes(model)):
        warnings.warn("the model is in training mode; it is evaluated in eval mode and put back", stacklevel=2)
    (evaluation,) = evaluate_each(model, data, [attack], limit=limit, chunk=chunk, watch=watch)
    return evaluation


def evaluate_each(
    model: nn.Module,
    data: Examples,
    attacks: Sequence[Attack | None],
    *,
    limit: int | None = None,
    chunk: int = 256,
    watch: Watch | None = None,
    keepers: Sequence[Keeper] | None = None,
) -> Iterator[Evaluation]:
    """The same for several attacks with one clean pass, each yielded when it is done; the model stays in eval mode.

    `keepers`, one for each attack, hold the state of what is under way.
    """
    if chunk < 1:
        raise InputError(f"chunk is at least 1, got {chunk}")
    for attack in attacks:
        if attack is not None and attack.targeted:
            raise InputError(f"{attack} is targeted: evaluation asks who is misclassified, not as what")
    examples = _Chunks(model, data, limit, chunk)
    kept: Sequence[Keeper] = [Forgetful()] * len(attacks) if keepers is None else keepers

    with evaluation_mode(model):
        ahead = _Ahead(watch, attacks, len(examples.labels))
        clean = examples.clean_logits(model, ahead.tell)
        _refuse_probabilities(clean)
        quick = model
        if any(attack is not None and attack.steps >= WORTH_PREPARING for attack in attacks):
            quick = prepare(model, examples.batch(torch.arange(min(chunk, len(clean))))[0])
        for attack, keeper in zip(attacks, kept, strict=True):
            campaign = Campaign(clean, examples.labels, keeper)
            if attack is not None:
                ahead.begin()
                by = quick if attack.steps >= WORTH_PREPARING else model
                campaign.run(by, attack, examples.batch, clean, chunk, ahead.tell)
            yield _assemble(examples.labels, clean, campaign)


class _Ahead:
    """Progress through several attacks: those not begun yet count as if nobody fell."""

    def __init__(self, watch: Watch | None, attacks: Sequence[Attack | None], count: int) -> None:
        self.watch = watch
        self.costs = [count * sum(cost(part) for part in attack.parts()) for attack in attacks if attack is not None]
        self.before = self.spent = 0.0

    def begin(self) -> None:
        """The next attack."""
        self.before += self.spent
        self.spent = 0.0
        self.costs.pop(0)

    def tell(self, done: float, total: float, what: str) -> None:
        """Pass it on, with what lies before and ahead."""
        self.spent = done
        if self.watch is not None:
            self.watch(self.before + done, self.before + total + sum(self.costs), what)


class _Chunks:
    """Images, labels and keys, so many at a time, where the model is and in its precision."""

    def __init__(self, model: nn.Module, data: Examples, limit: int | None, size: int) -> None:
        self.images, self.labels = _examples(data, limit)
        self.size = size
        tensors = itertools.chain(model.parameters(), model.buffers())
        self.reference = next((tensor for tensor in tensors if tensor.is_floating_point()), None)

    def batch(self, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Images, labels and keys of these positions."""
        x, y, keys = self.images[index], self.labels[index], index
        x = to_float(x) if x.dtype == torch.uint8 else x
        if self.reference is not None:
            device, dtype = self.reference.device, self.reference.dtype
            x, y, keys = x.to(device, dtype), y.to(device), keys.to(device)
        check_batch(x, y, keys)
        return x, y, keys

    def clean_logits(self, model: nn.Module, watch: Watch) -> Tensor:
        """Of all images, (N, C)."""
        logits = []
        with untouched(model, self.batch(torch.arange(1))[0]):
            for index in torch.split(torch.arange(len(self.labels)), self.size):
                x, y, _ = self.batch(index)
                logits.append(clean_pass(model, x, y))
                watch(float(index[-1]) + 1, float(len(self.labels)), "clean images")
        return torch.cat(logits)


def _assemble(labels: Tensor, clean: Tensor, campaign: Campaign) -> Evaluation:
    """The outcomes from the campaign's state."""
    logits = campaign.logits
    return Evaluation(
        labels=labels.cpu().to(torch.int64).numpy(),
        clean_probabilities=clean.float().softmax(1).cpu().numpy(),
        probabilities=logits.float().softmax(1).numpy(),
        clean_prediction=clean.argmax(1).cpu().numpy(),
        prediction=logits.argmax(1).numpy(),
        distance=campaign.distance.numpy(),
        forwards=campaign.forwards.numpy(),
        backwards=campaign.backwards.numpy(),
        unconfirmed=campaign.unconfirmed.numpy(),
    )


def _examples(data: Examples, limit: int | None) -> tuple[Tensor, Tensor]:
    """The first `limit` images and labels."""
    if limit is not None and limit < 1:
        raise InputError(f"limit is at least 1, got {limit}")
    if isinstance(data, Dataset):
        return data.images[:limit], data.labels[:limit]
    if not (isinstance(data, tuple) and len(data) == 2 and all(isinstance(part, Tensor) for part in data)):
        raise InputError(f"data is a Dataset or a pair of tensors (images, labels), got {type(data).__name__}")
    images, labels = data
    check_batch(images, labels, None)
    return images[:limit].detach(), labels[:limit].to(torch.int64)


def _refuse_probabilities(logits: Tensor) -> None:
    """A softmax inside the model would flatten the losses' gradients and mask them."""
    if logits.min() >= 0 and (logits.sum(1) - 1).abs().max() < 1e-3:
        raise InputError("the model gives probabilities: each output row is >= 0 and sums to 1. Remove its softmax")


@contextlib.contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Eval mode, and afterwards each module's own mode again."""
    before = modes(model)
    model.eval()
    try:
        yield
    finally:
        for part, mode in before:
            part.training = mode
