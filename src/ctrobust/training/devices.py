"""The devices and processes of a run, through lightning-fabric, which only this package uses."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies.ddp import DDPStrategy
from lightning_fabric.utilities.rank_zero import rank_zero_only
from torch import Tensor, nn

from ctrobust.errors import InputError, RunError
from ctrobust.models import Classifier
from ctrobust.specs import TrainSpec

T = TypeVar("T")

PROCESS_TIMEOUT = timedelta(days=1)
"""How long processes wait for the first one, which alone evaluates; if a process dies, the others stop at once."""

PRECISIONS = {"fp32": "32-true", "bf16": "bf16-mixed"}


@dataclass(frozen=True)
class Devices:
    """The devices to train on. They are not part of the spec; the number of processes, its world size, is.

    Attributes:
        accelerator: "auto", "cpu", "cuda" or "mps".
        strategy: "auto" (DDP if there are several processes), "ddp" (which starts the command again for each process)
            or "ddp_spawn" (for use from Python).
        nodes: number of machines; the environments of torchrun and SLURM are recognized.
    """

    accelerator: str = "auto"
    strategy: str = "auto"
    nodes: int = 1

    def fabric(self, spec: TrainSpec) -> Fabric:
        """Make the Fabric for a spec; its world size is divided among the nodes."""
        if spec.world_size % self.nodes:
            raise InputError(f"{spec.world_size} processes cannot be spread evenly over {self.nodes} nodes")
        logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # hides its banner
        strategy = "ddp" if self.strategy == "auto" and spec.world_size > 1 else self.strategy
        start_method = {"ddp": "popen", "ddp_spawn": "spawn"}.get(strategy)
        ddp = (
            DDPStrategy(start_method=start_method, timeout=PROCESS_TIMEOUT, broadcast_buffers=False)  # type: ignore[arg-type]
            if start_method
            else None
        )
        try:
            return Fabric(
                accelerator=self.accelerator,
                strategy=ddp or strategy,
                devices=spec.world_size // self.nodes,
                num_nodes=self.nodes,
                precision=PRECISIONS[spec.precision],  # type: ignore[arg-type]
            )
        except (RuntimeError, ValueError) as error:
            raise InputError(
                f"cannot train on accelerator {self.accelerator} with strategy {self.strategy}: {error}"
            ) from None


def launch(fabric: Fabric, work: Callable[..., T], *args: object) -> T:
    """Run `work(fabric, *args)` in every process; if one process dies, the others raise a RunError."""
    without_observer: Callable[..., T] = _run_without_observer
    try:
        result: T = fabric.launch(without_observer, work, *args)
    except RuntimeError as error:
        if fabric.world_size == 1 or not _is_connection_error(error):
            raise
        raise RunError(f"another process of this run died; continue with --resume ({error})") from error
    return result


def _is_connection_error(error: RuntimeError) -> bool:
    """Whether the connection to another process failed, and not something in this process."""
    words = ("gloo", "nccl", "connection closed", "connection reset", "broken pipe")
    return isinstance(error, torch.distributed.DistError) or any(word in str(error).lower() for word in words)


def _run_without_observer(fabric: Fabric, work: Callable[..., T], *args: object) -> T:
    """Run the work, on the CPU without fabric's observer of the child processes.

    If a child dies, the observer kills the first process within five seconds, perhaps before its error message is
    printed. Gloo reports the death of a process by itself.
    """
    if fabric.device.type == "cpu":
        getattr(fabric.strategy.launcher, "procs", []).clear()  # the list of processes that the observer checks
    result = work(fabric, *args)
    if fabric.world_size > 1 and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()  # its threads abort a process that exits while they run
    return result


def is_main_process() -> bool:
    """Whether this is the process with global rank 0, which alone prints."""
    return getattr(rank_zero_only, "rank", 0) in (0, None)


class UnwrappedModel(nn.Module):
    """The network without its DDP wrapper, in the run's autocast: the attacks of a recipe call it."""

    def __init__(self, model: Classifier, fabric: Fabric) -> None:
        super().__init__()
        self.model, self.fabric = model, fabric

    def forward(self, x: Tensor) -> Tensor:
        with self.fabric.autocast():
            logits: Tensor = self.model(x)
        return logits

    def sample_logits(self, x: Tensor, k: int) -> Tensor:
        with self.fabric.autocast():
            return self.model.sample_logits(x, k)


class FabricProcesses:
    """The processes of a run, for recipes (`ctrobust.recipes.Processes`)."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric

    @property
    def first(self) -> bool:
        """Whether this process has rank 0, which alone writes files."""
        return self.fabric.is_global_zero

    @property
    def index(self) -> int:
        """The global rank."""
        return self.fabric.global_rank

    @property
    def count(self) -> int:
        """The world size."""
        return self.fabric.world_size

    def gather(self, values: Tensor) -> Tensor:
        """Concatenate the (n, ...) values of all processes; n may differ between them."""
        if self.fabric.world_size == 1:
            return values
        sizes = self._stacked(torch.tensor([len(values)], device=values.device))[:, 0].tolist()
        padding = values.new_zeros(max(sizes) - len(values), *values.shape[1:])
        padded = self._stacked(torch.cat([values, padding]))
        return torch.cat([row[:size] for row, size in zip(padded, sizes, strict=True)])

    def share_buffers(self, model: nn.Module) -> None:
        """Broadcast the buffers of rank 0, among them BatchNorm's running statistics, which the checkpoint saves.

        This happens before each batch. DDP would do it at each forward pass, but attacks call the network without DDP.
        """
        if self.fabric.world_size == 1:
            return
        by_dtype: dict[torch.dtype, list[Tensor]] = {}
        for buffer in model.buffers():
            by_dtype.setdefault(buffer.dtype, []).append(buffer)
        for buffers in by_dtype.values():
            flat = torch.cat([buffer.flatten() for buffer in buffers])  # one message is faster than many
            torch.distributed.broadcast(flat, 0)
            for buffer, values in zip(buffers, flat.split([buffer.numel() for buffer in buffers]), strict=True):
                buffer.copy_(values.view_as(buffer))

    def sum(self, values: Tensor) -> Tensor:
        """Sum over the processes."""
        if self.fabric.world_size == 1:
            return values
        return self._stacked(values).sum(0)

    def _stacked(self, values: Tensor) -> Tensor:
        """Stack the values of all processes, which have the same shape: (world size, ...)."""
        local = values.detach().to(self.fabric.device).contiguous()
        gathered = [torch.empty_like(local) for _ in range(self.fabric.world_size)]
        torch.distributed.all_gather(gathered, local)
        return torch.stack(gathered).to(values.device)
