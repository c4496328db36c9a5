"""Checks of a network of the user on a few images, before hours are spent on it: each gives one line with a remedy."""

import warnings
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ctrobust.attacks.model_checks import PROBABILITIES, check_logits_shape, probabilities, untouched
from ctrobust.data import Dataset, to_float
from ctrobust.errors import CtrobustError, InputError
from ctrobust.evaluation.evaluation_batches import ModelInputs
from ctrobust.evaluation.evaluator import evaluation_mode
from ctrobust.evaluation.randomized_models import RANDOMNESS_IMAGES, is_random, repeated_distance
from ctrobust.model_outputs import as_logits

SCALE_IMAGES = 128
"""The number of images on which other scales are tried."""

LARGE_GAIN = 0.2
"""Another scale is reported if it classifies this share of the images more."""


def check_network(model: nn.Module, data: Dataset, name: str) -> None:
    """Raise unless the network takes the images of the data and gives one logit for each class.

    The network is in eval mode meanwhile; `name` names it in messages.
    """
    x, y = data.images[:2], data.labels[:2]
    place = ModelInputs(model)
    x = place.place(x, y, y)[0]
    with evaluation_mode(model), untouched(model, x), torch.no_grad():
        try:
            output = place.in_float32(model)(x)
        except CtrobustError:
            raise
        except Exception as error:  # whatever the user's code raises
            shape, reason = "x".join(map(str, x.shape[1:])), str(error).partition("\n")[0]
            raise InputError(
                f"{name} cannot take images of {data.name}, which are {shape} (channels, height, width): "
                f"{type(error).__name__}: {reason}. Choose data that fit by --data, or adapt the network"
            ) from error
        logits = check_logits_shape(output, len(x))
    if logits.shape[1] != data.num_classes:
        raise InputError(
            f"{name} gives {logits.shape[1]} logits, and {data.name} has {data.num_classes} classes; give the network "
            f"{data.num_classes} outputs, or name its data by --data"
        )
    if not logits.isfinite().all():
        raise InputError(
            f"{name} gives NaN or infinity on images of {data.name}: check its weights and its normalization"
        )
    if len(logits) > 1 and probabilities(logits):
        raise InputError(PROBABILITIES)


def check_trainable(model: nn.Module, data: Dataset, name: str) -> None:
    """Raise unless the logits have a gradient, which training needs."""
    x, y = data.images[:2], data.labels[:2]
    inputs = ModelInputs(model)
    x = inputs.place(x, y, y)[0]
    with evaluation_mode(model), untouched(model, x), torch.enable_grad():
        if not as_logits(inputs.in_float32(model)(x)).requires_grad:
            raise InputError(
                f"{name} gives logits without a gradient, so it cannot be trained; remove detach(), no_grad() and "
                "rounding from its forward pass, and let its parameters require gradients"
            )


def draws_at_random(model: nn.Module, data: Dataset) -> bool:
    """Whether passes over the same images differ, by the threshold of the first masking test."""
    inputs = ModelInputs(model)
    x, y = data.images[:RANDOMNESS_IMAGES], data.labels[:RANDOMNESS_IMAGES]
    x = inputs.place(x, y, y)[0]
    with evaluation_mode(model), untouched(model, x):
        return is_random(repeated_distance(inputs.in_float32(model), x, 3))


def check_scale(model: nn.Module, data: Dataset, name: str) -> None:
    """Raise if images of another scale are classified far better, and the given ones no better than by guessing.

    A network that is better than guessing, and far better on another scale, is warned of; so is one that classifies no
    scale better than by guessing.
    """
    x, y = to_float(data.images[:SCALE_IMAGES]), data.labels[:SCALE_IMAGES]
    with evaluation_mode(model), untouched(model, x[:1]):
        found = _accuracy(model, x, y)
        guessing = 1 / data.num_classes + 2 * (1 / (data.num_classes * len(x))) ** 0.5
        best, mean, std = max((_accuracy(model, _scaled(x, *scale), y), *scale) for scale in _scales(data))
    if best - found >= LARGE_GAIN and best > guessing:
        text = (
            f"{name} classifies {found:.0%} of the first {len(x)} images of {data.name} correctly, and {best:.0%} if "
            f"they are normalized: it expects another scale than [0, 1]. Add --mean {_text(mean)} --std {_text(std)}"
        )
        if found <= guessing:
            raise InputError(text)
        warnings.warn(text, stacklevel=2)
    elif found <= guessing:
        warnings.warn(
            f"{name} classifies {found:.0%} of the first {len(x)} images of {data.name} correctly, no more than "
            "guessing; does it need --weights, or have its classes another order?",
            stacklevel=2,
        )


def _scales(data: Dataset) -> list[tuple[tuple[float, ...], tuple[float, ...]]]:
    """Usual normalizations as mean and std: 0..255, -1..1, and that of the training images."""
    channels = data.in_channels
    whole = [((0.0,) * channels, (1 / 255,) * channels), ((0.5,) * channels, (0.5,) * channels)]
    return [*whole, (tuple(data.mean), tuple(data.std))]


def _scaled(x: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    shift, scale = (torch.tensor(values, dtype=x.dtype).view(1, -1, 1, 1) for values in (mean, std))
    return (x - shift) / scale


def _accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    inputs = ModelInputs(model)
    x, y, _ = inputs.place(x, y, y)
    with torch.no_grad():
        return float((as_logits(inputs.in_float32(model)(x)).argmax(1) == y).float().mean())


def _text(values: Sequence[float]) -> str:
    texts = ["1/255" if value == 1 / 255 else f"{value:.4g}" for value in values]
    return texts[0] if len(set(texts)) == 1 else ",".join(texts)
