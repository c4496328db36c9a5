"""The state of a run between two batches: enough to go on to the same bits."""

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
    """Where a run is. All randomness is keyed by these, so there is no generator to save.

    Attributes:
        epoch: epochs finished.
        batch: batches finished of the epoch under way.
        step: optimizer steps made.
        loss_sum: sum of the epoch's losses, each weighted by its batch.
        seconds: of each finished epoch, then of the one under way.
        watched: the collapse watch's accuracy of the last epoch that had not collapsed.
        collapses: the epochs after which it had collapsed: accuracy then, in the last good epoch, and under one step.
        returned_to: the epoch whose weights the run went back to when it ended at a collapse.
        best: the best epoch on the held-out images and its accuracies.
        environments: on what it was made, one for each change of versions, machine, threads or commit.
        data: what the training images and labels are, where their name does not say it: their digest.
    """

    epoch: int = 0
    batch: int = 0
    step: int = 0
    loss_sum: float = 0.0
    seconds: list[float] = field(default_factory=lambda: [0.0])
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
    """Write all of it to one file, atomically; `copies` are further networks.

    Every process of a run calls this, because a recipe's state may be spread over them; only one of them writes.
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
    """Put model, optimizer, recipe and copies into the saved state, and say where it is."""
    try:
        tensors, metadata = read_tensors(path)
    except RunError as error:
        raise RunError(f"{error}; remove it to begin anew") from None
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
            # kept in the parameter's own layout, which the fused optimizer needs
            entries.setdefault(int(index), {})[key] = torch.empty_like(parameters[int(index)]).copy_(value)
        optimizer.load_state_dict({**optimizer.state_dict(), "state": entries})
        recipe.load_state_dict(_under(tensors, "recipe"))
        return TrainingProgress(**metadata["progress"])
    except (KeyError, TypeError, ValueError, IndexError, RuntimeError) as error:
        raise RunError(f"{path} is not a checkpoint of this run: {error}") from None


def _under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose name starts with `prefix.`, without it."""
    return {name.removeprefix(f"{prefix}."): value for name, value in tensors.items() if name.startswith(f"{prefix}.")}
