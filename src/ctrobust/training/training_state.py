"""A run in memory: model, optimizer and recipe as the spec describes them, and the step that moves them on."""

import copy
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric

from ctrobust import data, draws
from ctrobust.data import Dataset
from ctrobust.errors import InputError
from ctrobust.losses import LOSSES
from ctrobust.models import Classifier, build_from_spec, save_weights
from ctrobust.recipes import RECIPES, AttackableModel, OnlineSmoothing, Processes, Recipe
from ctrobust.regularizers import set_step
from ctrobust.specs import FreeSpec, NaturalSpec, TrainSpec
from ctrobust.training import checkpoint
from ctrobust.training.devices import Devices, FabricProcesses, Inner
from ctrobust.training.schedules import learning_rate
from ctrobust.training.validation_split import hold_out
from ctrobust.training.weight_average import WeightAverage


def build_recipe(
    spec: TrainSpec, num_classes: int, processes: Processes, inner: AttackableModel | None = None
) -> Recipe:
    """The recipe that a spec describes; attacks call `inner`."""
    recipe = spec.recipe
    fields = recipe.model_dump(exclude={"name"})
    if isinstance(recipe, NaturalSpec):
        smoothing = recipe.loss == "online-label-smoothing"
        fields["loss"] = OnlineSmoothing(num_classes, processes) if smoothing else LOSSES[recipe.loss]
    shared = {"processes": processes} if isinstance(recipe, NaturalSpec | FreeSpec) else {"seed": spec.seed, "inner": inner}
    made: Recipe = RECIPES[recipe.name](**fields, **shared)
    return made


def build_model(spec: TrainSpec, train: Dataset) -> Classifier:
    """The network with the weights that the seed gives; torch's generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(spec.seed)
        return build_from_spec(spec.model, train.in_channels, train.num_classes, train.mean, train.std)


def build_optimizer(spec: TrainSpec, model: Classifier) -> torch.optim.SGD:
    """SGD, fused: one pass over the parameters a step."""
    return torch.optim.SGD(
        model.parameters(), lr=spec.lr, momentum=spec.momentum, weight_decay=spec.weight_decay, fused=True
    )


@dataclass
class TrainingState:
    """A run in memory: what the spec describes, and where it is.

    Attributes:
        train: what it trains on, without the images held out.
        held: those, or None.
        model: the network, and `wrapped` the same in the run's precision, for many devices.
        average: the moving average of its weights, where asked for.
        good: where the run stops at a collapse, the networks of the last epoch before one.
    """

    spec: TrainSpec
    train: Dataset
    held: Dataset | None
    fabric: Fabric
    processes: FabricProcesses
    model: Classifier
    wrapped: Any
    optimizer: Any
    recipe: Recipe
    progress: checkpoint.TrainingProgress
    average: WeightAverage | None
    good: dict[str, Classifier]

    @classmethod
    def begin(cls, spec: TrainSpec, train: Dataset, fabric: Fabric | None = None) -> "TrainingState":
        """At its first step."""
        contents = None if train.verified else train.digest()
        train, held = hold_out(train, spec.validation)
        if len(train) % spec.batch_size in range(1, spec.world_size):
            raise InputError(
                f"the last batch has {len(train) % spec.batch_size} examples for {spec.world_size} processes; "
                "choose another batch size or limit"
            )
        fabric = fabric or Devices(accelerator="cpu").fabric(spec)
        processes = FabricProcesses(fabric)
        model = build_model(spec, train)
        with warnings.catch_warnings():  # newer versions of torch have another name for it, older ones have not
            warnings.filterwarnings("ignore", message=".*broadcast_buffers.* is deprecated")
            wrapped, optimizer = fabric.setup(model, build_optimizer(spec, model))
        inner = Inner(model, fabric)
        if fabric.world_size > 1:
            wrapped.mark_forward_method("sample_logits")
        else:
            wrapped = inner  # fabric's own wrapper keeps to the precision in `forward` alone
        recipe = build_recipe(spec, train.num_classes, processes, inner)
        run = cls(
            spec, train, held, fabric, processes, model, wrapped, optimizer, recipe,
            checkpoint.TrainingProgress(data=contents),
            WeightAverage(model, spec.ema) if spec.ema else None, {},
        )  # fmt: skip
        if spec.stop_on_collapse:
            run.good = {name: copy.deepcopy(network) for name, network in run.networks.items()}
        return run

    @property
    def networks(self) -> dict[str, Classifier]:
        """The trained network and, where there is one, the average."""
        return {"model": self.model, **({"average": self.average.model} if self.average else {})}

    @property
    def copies(self) -> dict[str, Classifier]:
        """All networks besides the trained one that must survive a kill."""
        average = {"average": self.average.model} if self.average else {}
        return {**average, **{f"good.{name}": network for name, network in self.good.items()}}

    @property
    def result(self) -> Classifier:
        """The network that the run is for: the average where there is one."""
        return self.average.model if self.average else self.model

    @property
    def eps(self) -> float | None:
        """The radius of an adversarial recipe."""
        return None if isinstance(self.spec.recipe, NaturalSpec) else self.spec.recipe.eps

    def save_weights(self, path: Path) -> None:
        """Write the weights of the network that the run produces."""
        save_weights(
            path, self.result, self.spec.model,
            in_channels=self.train.in_channels, classes=self.train.classes, data=self.train.name,
        )  # fmt: skip

    def keep_good(self) -> None:
        """Note the networks as good ones, where the run may return to them."""
        for name, network in self.good.items():
            network.load_state_dict(self.networks[name].state_dict())

    def return_to_good(self) -> None:
        """Take the last good networks."""
        for name, network in self.networks.items():
            network.load_state_dict(self.good[name].state_dict())

    @property
    def batches(self) -> int:
        """Batches an epoch; the last may be smaller."""
        return -(-len(self.train) // self.spec.batch_size)

    @property
    def steps(self) -> int:
        """Optimizer steps of the whole run, Free-AT's replays counted."""
        return self.spec.epochs * self.batches * self.replays

    @property
    def replays(self) -> int:
        """Optimizer steps a batch."""
        return self.spec.recipe.replays if isinstance(self.spec.recipe, FreeSpec) else 1

    def rate(self, step: int) -> float:
        """The learning rate of a step of the epoch under way."""
        spec = self.spec
        return learning_rate(spec.schedule, spec.lr, step, self.steps, self.progress.epoch, spec.epochs)

    def order(self) -> torch.Tensor:
        """The examples' indices in the order of the epoch under way."""
        return draws.permutation(len(self.train), draws.stream(self.spec.seed, "order", self.progress.epoch))

    def first_images(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The 256 training images and labels with which the epoch under way began, for collapse detection."""
        return self.images(self.order()[:256], self.progress.epoch * self.batches * self.replays)

    def images(self, index: torch.Tensor, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Images and labels as the batch that begins at optimizer step `step` has them, on the run's device."""
        x, y = data.gather(self.train, index)
        if self.spec.augment == "crop-flip":
            x = data.augment(x, index, draws.stream(self.spec.seed, "augment", step))
        x, y = self.fabric.to_device((x, y))
        return x, y

    def batch(self, index: torch.Tensor) -> torch.Tensor:
        """Descend the losses of this process's part of a batch, and give the last one's sum over the part.

        Gradients are averaged over the processes, so each weighs its mean by its part of the batch.
        """
        spec, progress, fabric = self.spec, self.progress, self.fabric
        part = index[fabric.global_rank :: fabric.world_size]
        weight = len(part) * fabric.world_size / len(index)
        x, y = self.images(part, progress.step)
        keys = fabric.to_device(part)
        self.processes.share_buffers(self.model)
        set_step(self.model, seed=spec.seed, step=progress.step, keys=keys, progress=progress.step / self.steps)
        for loss in _losses(self.recipe(self.wrapped, x, y, keys), len(part)):
            for group in self.optimizer.param_groups:
                group["lr"] = self.rate(progress.step)
            self.optimizer.zero_grad(set_to_none=True)
            fabric.backward(loss if weight == 1 else loss * weight)
            self.optimizer.step()
            if self.average:
                self.average.update(self.model, progress.step)
            progress.step += 1
        return loss.detach() * len(part)


def _losses(losses: Iterator[torch.Tensor], count: int) -> Iterator[torch.Tensor]:
    """The losses of a batch of `count` examples; that BatchNorm refuses so few is the choice of their number."""
    try:
        yield from losses
    except ValueError as error:
        if "more than 1 value per channel" not in str(error):
            raise
        raise InputError(
            f"BatchNorm cannot normalize a batch of {count} images that shrink to one pixel; "
            "choose another batch size or limit"
        ) from None
