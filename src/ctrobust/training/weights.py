"""Trained networks on disk: the weights with what is needed to build the network around them."""

import contextlib
from pathlib import Path
from typing import Any

import torch

from ctrobust import models
from ctrobust.data import Dataset
from ctrobust.errors import RunError
from ctrobust.models import Classifier
from ctrobust.specs import ModelSpec
from ctrobust.store import RunDirectory, read_tensors, write_tensors


def build(spec: ModelSpec, in_channels: int, num_classes: int, mean: Any = None, std: Any = None) -> Classifier:
    """The network of a spec, in channels_last, which is faster on CPUs and on GPUs with half precision."""
    model = models.build(
        spec.name,
        num_classes,
        in_channels,
        spec.width,
        noise=spec.noise,
        drop=spec.drop,
        maps=spec.maps,
        mean=mean,
        std=std,
    )
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def save(path: Path, model: Classifier, spec: ModelSpec, data: Dataset) -> None:
    """Write the weights; the note says how to build the network and what the classes are called."""
    note = {
        "model": spec.model_dump(mode="json"),
        "in_channels": data.in_channels,
        "num_classes": data.num_classes,
        "classes": list(data.classes),
        "data": data.name,
    }
    write_tensors(path, model.state_dict(), note)


def weights_file(path: Path | str) -> Path:
    """The weights of a run directory, or the file itself."""
    path = Path(path)
    if not path.exists():
        raise RunError(f"nothing at {path}: give a run directory or a weights file")
    if not path.is_dir():
        _refuse_pickles(path)
        return path
    run = RunDirectory(path)
    if not run.model_file.exists():
        run.read_spec()
        raise RunError(f"{path} is not finished: ctrobust train --resume --out {path}")
    return run.model_file


def _refuse_pickles(path: Path) -> None:
    """Say of a file of torch.save's, which is a zip archive, what to do instead."""
    with contextlib.suppress(OSError), path.open("rb") as file:  # what cannot be read is told by who reads it
        if file.read(4) == b"PK\x03\x04":
            raise RunError(
                f"{path} is not a whole safetensors file but one of torch.save's, which can run code and are not read; "
                "load your network yourself and call ctrobust.evaluate(model, data, attack)"
            )


def load(path: Path | str) -> Classifier:
    """A trained network, in eval mode, from a run directory or a weights file. Nothing is unpickled."""
    file = weights_file(path)
    tensors, note = read_tensors(file)
    try:
        spec = ModelSpec.model_validate(note["model"])
        model = build(spec, note["in_channels"], note["num_classes"])
        model.load_state_dict(tensors)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise RunError(f"{file} holds no network that this version can build: {error}") from None
    return model.eval()
