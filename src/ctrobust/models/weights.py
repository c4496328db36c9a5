"""Trained networks on disk: the weights with what is needed to build the network around them."""

import contextlib
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ctrobust import models
from ctrobust.errors import RunError
from ctrobust.models.classifier import Classifier
from ctrobust.models.mnistnet import NATIVE_SIZE, MNISTNetBody
from ctrobust.models.tensor_files import DamagedFileError, parse_tensors, read_bytes, write_tensors
from ctrobust.models.user_network import build_user_network
from ctrobust.specs import ModelSpec
from ctrobust.store import RunDirectory


def build_from_spec(
    spec: ModelSpec,
    in_channels: int,
    num_classes: int,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    image_size: tuple[int, int] | None = None,
    factory: str | None = None,
) -> Classifier:
    """Build the network of a spec, in channels_last, which is faster on CPUs and on GPUs with half precision.

    A network of the user is built by its `factory`, in the layout that it has, and takes images that are not
    normalized.
    """
    if spec.is_user_network:
        return build_user_network(spec, factory, in_channels, num_classes, image_size or NATIVE_SIZE)
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


class WeightsMetadata(BaseModel):
    """The metadata of a weights file: how to build the network, its classes, and the data that it was trained on.

    `image_size` is given where the weights depend on it, and the size is not 28 x 28; and for networks of the user.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    model: ModelSpec
    in_channels: Annotated[int, Field(ge=1)]
    num_classes: Annotated[int, Field(ge=2)]
    classes: list[str] = []
    data: str = ""
    image_size: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=2, max_length=2)] = list(NATIVE_SIZE)


@dataclass(frozen=True, eq=False)
class WeightsFile:
    """A weights file read once: its tensors, its metadata and the SHA-256 of its bytes.

    Attributes:
        path: the file.
        sha256: 64 hexadecimal digits; outcomes name the weights by the first 16.
        tensors: the state dict.
        metadata: how to build the network, the names of the classes, and the data it was trained on.
        factory: what the user names to build a network of their own; no file chooses it.
        repeats: the passes over which the logits of a network that draws at random are averaged, else 1.
    """

    path: Path
    sha256: str
    tensors: dict[str, torch.Tensor]
    metadata: Mapping[str, Any]
    factory: str | None = None
    repeats: int = 1

    @classmethod
    def read(cls, path: Path | str, factory: str | None = None) -> "WeightsFile":
        """Read the weights of a run directory, or a weights file.

        The bytes are verified by the checksum in the file, and those of a finished run by its record too, which holds
        the SHA-256 of files that were written without a checksum.
        """
        file = weights_path(path)
        content = read_bytes(file)
        run = RunDirectory(file.parent)
        of_run = file == run.model_file and run.spec_file.exists()
        remedy = f"ctrobust train --resume --out {run.path} writes it again" if of_run else "restore it from a copy"
        try:
            found = cls(file, hashlib.sha256(content).hexdigest(), *parse_tensors(content, file), factory)
        except DamagedFileError as error:
            raise DamagedFileError(f"{error}; {remedy}") from None
        if of_run and run.record_file.exists() and found.sha256 != (written := run.read_record().weights_sha256):
            raise DamagedFileError(
                f"{file} is not the file that training wrote: its SHA-256 is {found.sha256[:16]}..., "
                f"{run.record_file.name} says {written[:16]}...; {remedy}"
            )
        return found

    def build(self) -> Classifier:
        """Build the network with these weights, in eval mode."""
        try:
            metadata = WeightsMetadata.model_validate(self.metadata)
        except ValidationError as error:
            first = error.errors()[0]
            raise self._cannot_build(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
        size = (metadata.image_size[0], metadata.image_size[1]) if "image_size" in self.metadata else None
        shape = (metadata.model, metadata.in_channels, metadata.num_classes)
        if metadata.model.is_user_network:
            with torch.random.fork_rng(devices=[]):
                model = build_from_spec(*shape, image_size=size, factory=self.factory)
            try:
                model.load_state_dict(self.tensors)
            except RuntimeError as error:
                problem = " ".join(line.strip() for line in str(error).splitlines()[1:3])
                raise RunError(f"{self.path} does not fit the network of {self.factory}: {problem}") from None
            return model.eval()
        try:
            with torch.device("meta"):  # which needs no memory: damaged metadata may describe a huge network
                build_from_spec(*shape, image_size=size).load_state_dict(self.tensors, assign=True)
            model = build_from_spec(*shape, image_size=size)
            model.load_state_dict(self.tensors)
        except (ValueError, RuntimeError) as error:
            raise self._cannot_build(str(error)) from None
        return model.eval()

    def _cannot_build(self, problem: str) -> RunError:
        return RunError(f"{self.path} holds no network that this version can build: {problem}")


def save_weights(
    path: Path,
    model: Classifier,
    spec: ModelSpec,
    *,
    in_channels: int,
    classes: Sequence[str],
    data: str,
    image_size: tuple[int, int] = NATIVE_SIZE,
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
    elif spec.is_user_network:
        metadata["image_size"] = list(image_size)
    write_tensors(path, model.state_dict(), metadata)


def weights_path(path: Path | str) -> Path:
    """The weights file of a run directory, or the file itself."""
    path = Path(path)
    if not path.exists():
        raise RunError(f"nothing at {path}: give a run directory or a weights file")
    if not path.is_dir():
        if not path.is_file():  # a pipe would be waited for
            raise RunError(f"{path} is not a regular file: give a run directory or a weights file")
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
                "For a network of your own: ctrobust evaluate package.module:factory --weights FILE --data NAME"
            )


def load(path: Path | str, factory: str | None = None) -> Classifier:
    """Load a trained network, in eval mode, from a run directory or a weights file. Nothing is unpickled.

    A run of a network of one's own needs its `factory`, `package.module:function`.
    """
    return WeightsFile.read(path, factory).build()
