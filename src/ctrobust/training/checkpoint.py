"""The state of a run between two batches: a resumed run reaches the same bits."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ctrobust.errors import RunError
from ctrobust.models.tensor_files import read_tensors, write_tensors
from ctrobust.recipes import Recipe


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

    epoch: int = 0
    batch: int = 0
    step: int = 0
    loss_sum: float = 0.0
    seconds: list[float] = field(default_factory=lambda: [0.0])
    cpu_seconds: list[float | None] = field(default_factory=lambda: [0.0])
    watched: float | None = None
    collapses: list[dict[str, float | None]] = field(default_factory=list)
    returned_to: int | None = None
    best: dict[str, float] | None = None
    environments: list[dict[str, Any]] = field(default_factory=list)
    data: str | None = None


def save_checkpoint(
    path: Path,
    spec_hash: str,
    progress: TrainingProgress,
    model: nn.Module,
    optimizer: Optimizer,
    recipe: Recipe,
    copies: Mapping[str, nn.Module] | None = None,
    *,
    write: bool = True,
) -> None:
    """Write the whole state to one file, atomically; `copies` are further networks, by name.

    Every process of a run calls this function, because the state of a recipe may be spread over the processes; only
    the process with `write` writes the file.
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
        write_tensors(path, tensors, {"spec": spec_hash, "progress": dataclasses.asdict(progress)})


def load_checkpoint(
    path: Path,
    spec_hash: str,
    model: nn.Module,
    optimizer: Optimizer,
    recipe: Recipe,
    copies: Mapping[str, nn.Module] | None = None,
) -> TrainingProgress:
    """Load the saved state into model, optimizer, recipe and copies, and return the progress."""
    try:
        tensors, metadata = read_tensors(path)
    except RunError as error:
        raise RunError(f"{error}; remove it to start again") from None
    if metadata.get("spec") != spec_hash:
        raise RunError(f"{path} belongs to a run of spec {metadata.get('spec')}, this one is {spec_hash}")
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
        return _progress(metadata["progress"])
    except (KeyError, TypeError, ValueError, IndexError, RuntimeError) as error:
        raise RunError(f"{path} is not a checkpoint of this run: {error}") from None


def _under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Select the tensors whose names start with `prefix.`, and remove the prefix."""
    return {name.removeprefix(f"{prefix}."): value for name, value in tensors.items() if name.startswith(f"{prefix}.")}


def _progress(fields: dict[str, Any]) -> TrainingProgress:
    """Read the progress; checkpoints of earlier versions have no CPU seconds."""
    return TrainingProgress(**{"cpu_seconds": [None] * len(fields["seconds"]), **fields})
