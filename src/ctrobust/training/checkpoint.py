"""The state of a run between two batches: a resumed run reaches the same bits."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from torch import Tensor, nn
from torch.optim import Optimizer

from ctrobust.errors import RunError
from ctrobust.models.tensor_files import DamagedFileError, has_checksum, pack_tensors, parse_tensors, read_bytes
from ctrobust.recipes import Recipe
from ctrobust.specs import TrainSpec, spec_hash
from ctrobust.store import write_atomic

Counter = Annotated[int, Field(ge=0)]


@dataclass
class TrainingProgress:
    """How far a run is. All random draws are keyed by these numbers, so there is no generator to save.

    Attributes:
        epoch: number of finished epochs.
        batch: number of finished batches in the current epoch.
        step: number of optimizer steps.
        loss_sum: sum of the losses of the current epoch, one per example.
        seconds: wall time of each finished epoch, then of the current one.
        cpu_seconds: CPU time of the first process, all threads, likewise; None where a checkpoint did not record it.
        watched: collapse detection's best PGD-5 accuracy among the epochs that had not collapsed.
        collapses: each collapsed epoch with its PGD-5 accuracy, the best before it, and the one-step accuracy.
        returned_to: the epoch whose weights were restored when the run stopped at a collapse.
        best: the best epoch on the validation set and its accuracies.
        environments: the environments in which the run was trained, one per change of versions, machine or commit.
        data: digest of the training images and labels, or None if they are the published ones.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)

    epoch: Counter = 0
    batch: Counter = 0
    step: Counter = 0
    loss_sum: float = 0.0
    seconds: Annotated[list[float], Field(min_length=1)] = field(default_factory=lambda: [0.0])
    cpu_seconds: Annotated[list[float | None], Field(min_length=1)] = field(default_factory=lambda: [0.0])
    watched: float | None = None
    collapses: list[dict[str, int | float | None]] = field(default_factory=list)
    returned_to: int | None = None
    best: dict[str, int | float] | None = None
    environments: list[dict[str, Any]] = field(default_factory=list)
    data: str | None = None


_PROGRESS = TypeAdapter(TrainingProgress)


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A checkpoint that was read and whose checksum is right.

    Attributes:
        path: the file.
        spec: the hash of the spec of its run.
        progress: how far the run was.
        tensors: of the model, the optimizer, the recipe and the copies, by prefix.
        verified: whether it has a checksum; those of earlier versions have none.
    """

    path: Path
    spec: str
    progress: TrainingProgress
    tensors: dict[str, Tensor]
    verified: bool

    @classmethod
    def read(cls, path: Path) -> "Checkpoint":
        """Read and verify a checkpoint; raises DamagedFileError if it is not what was written."""
        content = read_bytes(path)
        tensors, metadata = parse_tensors(content, path)
        if metadata.keys() != {"spec", "progress"}:
            raise DamagedFileError(f"{path} is not a checkpoint of this run: it describes {', '.join(metadata)}")
        return cls(path, str(metadata["spec"]), _progress(metadata["progress"], path), tensors, has_checksum(content))

    def is_state_of(self, spec: TrainSpec) -> bool:
        """Whether a run of `spec` passes through this state.

        It does if the checkpoint is of this spec, or of the spec without its last changes of the learning rate, and not
        after the first of those changes.
        """
        for count, (epochs, _) in enumerate(spec.lr_changes):
            if spec_hash(spec.model_copy(update={"lr_changes": spec.lr_changes[:count]})) == self.spec:
                return (self.progress.epoch, self.progress.batch) <= (epochs, 0)
        return spec_hash(spec) == self.spec


def save_checkpoint(
    path: Path,
    spec: TrainSpec,
    progress: TrainingProgress,
    model: nn.Module,
    optimizer: Optimizer,
    recipe: Recipe,
    copies: Mapping[str, nn.Module] | None = None,
    *,
    write: bool = True,
    keep_as: Path | None = None,
) -> None:
    """Write the whole state to one file, atomically; `copies` are further networks, by name.

    Every process of a run calls this function, because the state of a recipe may be spread over the processes; only
    the process with `write` writes the file. With `keep_as` the checkpoint before is kept under that name.
    """
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for index, entries in optimizer.state_dict()["state"].items():
        for name, value in entries.items():
            if isinstance(value, Tensor):
                tensors[f"optimizer.{index}.{name}"] = value
    for copy, network in (copies or {}).items():
        tensors |= {f"{copy}.{name}": tensor for name, tensor in network.state_dict().items()}
    tensors |= {f"recipe.{name}": tensor for name, tensor in recipe.state_dict().items()}
    if write:
        metadata = {"spec": spec_hash(spec), "progress": dataclasses.asdict(progress)}
        write_atomic(path, pack_tensors(tensors, metadata), keep_as)


def load_checkpoint(
    path: Path,
    spec: TrainSpec,
    model: nn.Module,
    optimizer: Optimizer,
    recipe: Recipe,
    copies: Mapping[str, nn.Module] | None = None,
) -> TrainingProgress:
    """Load the saved state into model, optimizer, recipe and copies, and return the progress."""
    found = Checkpoint.read(path)
    tensors = found.tensors
    if not found.is_state_of(spec):
        raise RunError(f"{path} belongs to a run of spec {found.spec}, this one is {spec_hash(spec)}")
    try:
        model.load_state_dict(_under(tensors, "model"))
        for copy, network in (copies or {}).items():
            network.load_state_dict(_under(tensors, copy))
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        entries: dict[int, dict[str, Any]] = {}
        for name, value in _under(tensors, "optimizer").items():
            index, _, key = name.partition(".")
            # in the memory layout of the parameter, which the fused optimizer requires
            entries.setdefault(int(index), {})[key] = torch.empty_like(parameters[int(index)]).copy_(value)
        optimizer.load_state_dict({**optimizer.state_dict(), "state": entries})
        recipe.load_state_dict(_under(tensors, "recipe"))
    except (KeyError, TypeError, ValueError, IndexError, RuntimeError) as error:
        raise RunError(f"{path} is not a checkpoint of this run: {error}") from None
    return found.progress


def _under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Select the tensors whose names start with `prefix.`, and remove the prefix."""
    return {name.removeprefix(f"{prefix}."): value for name, value in tensors.items() if name.startswith(f"{prefix}.")}


def _progress(fields: Any, path: Path) -> TrainingProgress:
    """Validate the progress; checkpoints of earlier versions have no CPU seconds."""
    try:
        if isinstance(fields, dict) and isinstance(fields.get("seconds"), list):
            fields = {"cpu_seconds": [None] * len(fields["seconds"]), **fields}
        return _PROGRESS.validate_json(json.dumps(fields))
    except ValidationError as error:
        first = error.errors()[0]
        problem = ".".join(map(str, ("progress", *first["loc"]))) + f": {first['msg']}"
        raise DamagedFileError(f"{path} is not a checkpoint of this run: {problem}") from None
