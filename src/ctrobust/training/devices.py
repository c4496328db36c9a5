"""Where a run computes: one device or many, through lightning-fabric, which stays inside this room."""

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

PATIENCE = timedelta(days=1)
"""How long processes wait for the first one, which alone measures; the death of one ends the waiting at once."""

PRECISIONS = {"fp32": "32-true", "bf16": "bf16-mixed"}


@dataclass(frozen=True)
class Devices:
    """What to compute on; no part of the spec, but for how many processes share a batch.

    Attributes:
        accelerator: "auto", "cpu", "cuda", "mps".
        strategy: "auto" (one process), "ddp" (the command is started again for each process), "ddp_spawn" (for use from
            Python).
        nodes: machines; torchrun's and SLURM's environments are recognized.
    """

    accelerator: str = "auto"
    strategy: str = "auto"
    nodes: int = 1

    def fabric(self, spec: TrainSpec) -> Fabric:
        """Fabric for a spec; its world size is divided among the nodes."""
        if spec.world_size % self.nodes:
            raise InputError(f"{spec.world_size} processes cannot be spread evenly over {self.nodes} nodes")
        logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # its banner is not for our users
        strategy = "ddp" if self.strategy == "auto" and spec.world_size > 1 else self.strategy
        start = {"ddp": "popen", "ddp_spawn": "spawn"}.get(strategy)
        many = DDPStrategy(start_method=start, timeout=PATIENCE, broadcast_buffers=False) if start else strategy  # type: ignore[arg-type]
        try:
            return Fabric(
                accelerator=self.accelerator,
                strategy=many,
                devices=spec.world_size // self.nodes,
                num_nodes=self.nodes,
                precision=PRECISIONS[spec.precision],  # type: ignore[arg-type]
            )
        except (RuntimeError, ValueError) as error:
            raise InputError(
                f"cannot compute on accelerator {self.accelerator}, strategy {self.strategy}: {error}"
            ) from None


def launch(fabric: Fabric, work: Callable[..., T], *args: object) -> T:
    """Run `work(fabric, *args)` in every process; the death of one is an error in the others."""
    unobserved: Callable[..., T] = _unobserved
    try:
        result: T = fabric.launch(unobserved, work, *args)
    except RuntimeError as error:
        if fabric.world_size == 1 or not _lost(error):
            raise
        raise RunError(f"another process of this run is gone; go on with --resume ({error})") from error
    return result


def _lost(error: RuntimeError) -> bool:
    """Whether it tells of a connection, and not of something in this process."""
    words = ("gloo", "nccl", "connection closed", "connection reset", "broken pipe")
    return isinstance(error, torch.distributed.DistError) or any(word in str(error).lower() for word in words)


def _unobserved(fabric: Fabric, work: Callable[..., T], *args: object) -> T:
    """The work, without fabric's observer where gloo tells of a death.

    The observer looks every five seconds and kills the first process, perhaps before it has said what happened.
    """
    if fabric.device.type == "cpu":
        getattr(fabric.strategy.launcher, "procs", []).clear()  # the list that it looks at
    return work(fabric, *args)


def is_main_process() -> bool:
    """Whether this process speaks for its run: the first of those that torchrun, SLURM or fabric started."""
    return getattr(rank_zero_only, "rank", 0) in (0, None)


class Inner(nn.Module):
    """A network without its wrapper for many processes, in the run's precision: what an attack calls."""

    def __init__(self, model: Classifier, fabric: Fabric) -> None:
        super().__init__()
        self.model, self.fabric = model, fabric

    def forward(self, x: Tensor) -> Tensor:
        """The network's logits."""
        with self.fabric.autocast():
            logits: Tensor = self.model(x)
        return logits

    def sample_logits(self, x: Tensor, k: int) -> Tensor:
        """Those of its sub-networks."""
        with self.fabric.autocast():
            return self.model.sample_logits(x, k)


class FabricProcesses:
    """The processes of a run, as recipes see them."""

    def __init__(self, fabric: Fabric) -> None:
        self.fabric = fabric

    @property
    def first(self) -> bool:
        """Whether this process keeps what belongs to the whole run."""
        return self.fabric.is_global_zero

    @property
    def index(self) -> int:
        """Which process this is."""
        return self.fabric.global_rank

    @property
    def count(self) -> int:
        """How many there are."""
        return self.fabric.world_size

    def gather(self, values: Tensor) -> Tensor:
        """The (n, ...) values of every process as one tensor; n may differ between them by padding to the longest."""
        if self.fabric.world_size == 1:
            return values
        sizes = self._stacked(torch.tensor([len(values)], device=values.device))[:, 0].tolist()
        padding = values.new_zeros(max(sizes) - len(values), *values.shape[1:])
        parts = self._stacked(torch.cat([values, padding]))
        return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])

    def share_buffers(self, model: nn.Module) -> None:
        """Give every process the first one's buffers, among them BatchNorm's statistics, which are those saved.

        Before each batch, and not at each pass as DDP would: an attack passes DDP by, and a resumed run has them equal.
        """
        if self.fabric.world_size == 1:
            return
        kinds: dict[torch.dtype, list[Tensor]] = {}
        for buffer in model.buffers():
            kinds.setdefault(buffer.dtype, []).append(buffer)
        for buffers in kinds.values():  # as one message
            flat = torch.cat([buffer.flatten() for buffer in buffers])
            torch.distributed.broadcast(flat, 0)
            for buffer, part in zip(buffers, flat.split([buffer.numel() for buffer in buffers]), strict=True):
                buffer.copy_(part.view_as(buffer))

    def sum(self, values: Tensor) -> Tensor:
        """The sum over the processes."""
        if self.fabric.world_size == 1:
            return values
        return self._stacked(values).sum(0)

    def _stacked(self, values: Tensor) -> Tensor:
        """Values of one shape from every process, (world, ...)."""
        own = values.detach().to(self.fabric.device).contiguous()
        every = [torch.empty_like(own) for _ in range(self.fabric.world_size)]
        torch.distributed.all_gather(every, own)
        return torch.stack(every).to(values.device)
