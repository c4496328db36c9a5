"""Trained networks on disk: the weights with what is needed to build the network around them."""

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ctrobust import models
from ctrobust.errors import RunError
from ctrobust.models.classifier import Classifier
from ctrobust.models.mnistnet import NATIVE_SIZE, MNISTNetBody
from ctrobust.models.tensor_files import parse_tensors, read_bytes, write_tensors
from ctrobust.specs import ModelSpec
from ctrobust.store import RunDirectory


def build_from_spec(
    spec: ModelSpec,
    in_channels: int,
    num_classes: int,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    image_size: tuple[int, int] | None = None,
) -> Classifier:
    """Build the network of a spec, in channels_last, which is faster on CPUs and on GPUs with half precision."""
    model = models.build(
        spec.name,
        num_classes,
        in_channels,
        spec.width,
        image_size=image_size,
        noise=spec.noise,
        drop=spec.drop,
        maps=spec.maps,
        maps_drop=spec.maps_drop,
        maps_block=spec.maps_block,
        maps_alpha=spec.maps_alpha,
        mean=mean,
        std=std,
    )
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


@dataclass(frozen=True, eq=False)
class WeightsFile:
    """A weights file read once: its tensors, its metadata and the SHA-256 of its bytes.

    Attributes:
        path: the file.
        sha256: 64 hexadecimal digits; outcomes name the weights by the first 16.
        tensors: the state dict.
        metadata: how to build the network, the names of the classes, and the data it was trained on.
    """

    path: Path
    sha256: str
    tensors: dict[str, torch.Tensor]
    metadata: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path | str) -> "WeightsFile":
        """Read the weights of a run directory, or a weights file."""
        file = weights_path(path)
        content = read_bytes(file)
        return cls(file, hashlib.sha256(content).hexdigest(), *parse_tensors(content, file))

    def build(self) -> Classifier:
        """Build the network with these weights, in eval mode."""
        try:
            spec = ModelSpec.model_validate(self.metadata["model"])
            height, width = self.metadata.get("image_size", NATIVE_SIZE)
            model = build_from_spec(
                spec, self.metadata["in_channels"], self.metadata["num_classes"],
                image_size=(height, width) if "image_size" in self.metadata else None,
            )  # fmt: skip
            model.load_state_dict(self.tensors)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise RunError(f"{self.path} holds no network that this version can build: {error}") from None
        return model.eval()


def save_weights(
    path: Path, model: Classifier, spec: ModelSpec, *, in_channels: int, classes: Sequence[str], data: str
) -> None:
    """Write the weights with the metadata that rebuilds the network and names its classes."""
    metadata: dict[str, Any] = {
        "model": spec.model_dump(mode="json", exclude_none=True),
        "in_channels": in_channels,
        "num_classes": len(classes),
        "classes": list(classes),
        "data": data,
    }
    if isinstance(model.body, MNISTNetBody) and model.body.image_size != NATIVE_SIZE:
        metadata["image_size"] = list(model.body.image_size)
    write_tensors(path, model.state_dict(), metadata)


def weights_path(path: Path | str) -> Path:
    """The weights file of a run directory, or the file itself."""
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
    """Raise on a file that torch.save wrote, which is a zip archive of pickles, and name the alternative."""
    with contextlib.suppress(OSError), path.open("rb") as file:  # unreadable files raise where they are read
        if file.read(4) == b"PK\x03\x04":
            raise RunError(
                f"{path} is not a safetensors file; torch.save wrote it, and such files can run code and are not read. "
                "Load your network yourself and call ctrobust.evaluate(model, data, attack)"
            )


def load(path: Path | str) -> Classifier:
    """Load a trained network, in eval mode, from a run directory or a weights file. Nothing is unpickled."""
    return WeightsFile.read(path).build()
