"""Model x data x attack -> outcomes, with every success checked again."""

import contextlib
import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn

from ctrobust.attacks import Attack
from ctrobust.attacks.guards import check_batch, check_logits
from ctrobust.data import Dataset, to_float
from ctrobust.errors import CtrobustError, InputError
from ctrobust.evaluation.outcomes import Evaluation

Watch = Callable[[int, int], None]
"""Told how many examples of how many are done."""

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
    attacked at a time.

    Raises:
        InputError: images outside [0, 1], labels outside the classes, a model that gives NaN or probabilities.
    """
    if any(part.training for part in model.modules()):
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
) -> Iterator[Evaluation]:
    """The same for several attacks with one clean pass, each yielded when it is done; the model stays in eval mode."""
    if chunk < 1:
        raise InputError(f"chunk is at least 1, got {chunk}")
    chunks = _Chunks(model, data, limit, chunk)
    total = len(chunks.labels) * (1 + sum(attack is not None for attack in attacks))
    done = 0

    def advance(size: int) -> None:
        nonlocal done
        done += size
        if watch is not None:
            watch(done, total)

    with evaluation_mode(model):
        logits = []
        for x, y, _ in chunks:
            logits.append(_logits(model, x, y))
            advance(len(y))
        clean = torch.cat(logits)
        _refuse_probabilities(clean)

        for attack in attacks:
            parts = []
            for x, y, keys in chunks if attack is not None else ():
                assert attack is not None
                parts.append(_attacked(model, attack, x, y, keys, clean[keys]))
                advance(len(y))
            yield _assemble(chunks.labels, clean, parts)


class _Chunks:
    """Images, labels and keys, so many at a time, where the model is and in its precision."""

    def __init__(self, model: nn.Module, data: Examples, limit: int | None, size: int) -> None:
        self.images, self.labels = _examples(data, limit)
        self.size = size
        tensors = itertools.chain(model.parameters(), model.buffers())
        self.reference = next((tensor for tensor in tensors if tensor.is_floating_point()), None)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        for keys in torch.split(torch.arange(len(self.labels)), self.size):
            x, y = self.images[keys], self.labels[keys]
            x = to_float(x) if x.dtype == torch.uint8 else x
            if self.reference is not None:
                device, dtype = self.reference.device, self.reference.dtype
                x, y, keys = x.to(device, dtype), y.to(device), keys.to(device)
            check_batch(x, y, keys)
            yield x, y, keys


def _attacked(
    model: nn.Module, attack: Attack, x: Tensor, y: Tensor, keys: Tensor, clean: Tensor
) -> tuple[Tensor, ...]:
    """One chunk: logits under attack, distance, forwards, backwards, unconfirmed."""
    result = attack.run(model, x, y, keys, clean)
    distance = (result.x_adv - x).flatten(1).abs().amax(1)
    low, high = (value.item() for value in result.x_adv.aminmax())
    rounding = 4 * torch.finfo(x.dtype).eps
    if not (distance.max().item() <= attack.eps + rounding and low >= 0 and high <= 1):
        raise CtrobustError(
            f"{attack} left its ball or the box: distance {distance.max().item():.6g} of {attack.eps:.6g}, "
            f"values {low:.6g} to {high:.6g}"
        )
    logits = _logits(model, result.x_adv, y)
    unconfirmed = result.success & (logits.argmax(1) == y) & (clean.argmax(1) == y)
    return logits, distance, result.forwards, result.backwards, unconfirmed


def _assemble(labels: Tensor, clean: Tensor, parts: list[tuple[Tensor, ...]]) -> Evaluation:
    """The outcomes from the chunks' tensors; without chunks, those of no attack."""
    zeros = torch.zeros(len(labels), dtype=torch.int64)
    columns = (
        [torch.cat(column).cpu() for column in zip(*parts, strict=True)]
        if parts
        else [clean, zeros.float(), zeros, zeros, zeros.bool()]
    )
    logits, distance, forwards, backwards, unconfirmed = columns
    return Evaluation(
        labels=labels.cpu().to(torch.int64).numpy(),
        clean_probabilities=clean.float().softmax(1).cpu().numpy(),
        probabilities=logits.float().softmax(1).cpu().numpy(),
        clean_prediction=clean.argmax(1).cpu().numpy(),
        prediction=logits.argmax(1).cpu().numpy(),
        distance=distance.float().numpy(),
        forwards=forwards.numpy(),
        backwards=backwards.numpy(),
        unconfirmed=unconfirmed.numpy(),
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
    return images[:limit].detach(), labels[:limit]


def _logits(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    with torch.no_grad():
        return check_logits(model(x), y)


def _refuse_probabilities(logits: Tensor) -> None:
    """A softmax inside the model would flatten the losses' gradients and mask them."""
    if logits.min() >= 0 and (logits.sum(1) - 1).abs().max() < 1e-3:
        raise InputError("the model gives probabilities: each output row is >= 0 and sums to 1. Remove its softmax")


@contextlib.contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Eval mode, and afterwards each module's own mode again."""
    modes = [(part, part.training) for part in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for part, mode in modes:
            part.training = mode
