"""A run in memory: model, optimizer and recipe as the spec describes them, and the step that moves them on."""

from dataclasses import dataclass
from typing import Any

import torch
from lightning_fabric import Fabric

from ctrobust import data, draws
from ctrobust.data import Dataset
from ctrobust.errors import InputError
from ctrobust.losses import LOSSES
from ctrobust.models import Classifier
from ctrobust.recipes import RECIPES, OnlineSmoothing, Ranks, Recipe
from ctrobust.regularizers import tell
from ctrobust.specs import TrainSpec
from ctrobust.training import checkpoint, weights
from ctrobust.training.devices import Devices, FabricRanks
from ctrobust.training.schedules import learning_rate


def build_recipe(spec: TrainSpec, num_classes: int, ranks: Ranks) -> Recipe:
    """The recipe that a spec describes."""
    fields = spec.recipe.model_dump(exclude={"name", "loss"})
    smoothing = spec.recipe.loss == "online-label-smoothing"
    loss = OnlineSmoothing(num_classes, ranks) if smoothing else LOSSES[spec.recipe.loss]
    return RECIPES[spec.recipe.name](loss=loss, ranks=ranks, **fields)


def build_model(spec: TrainSpec, train: Dataset) -> Classifier:
    """The network with the weights that the seed gives; torch's generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(spec.seed)
        return weights.build(spec.model, train.in_channels, train.num_classes, train.mean, train.std)


def build_optimizer(spec: TrainSpec, model: Classifier) -> torch.optim.SGD:
    """SGD, fused: one pass over the parameters a step."""
    return torch.optim.SGD(
        model.parameters(), lr=spec.lr, momentum=spec.momentum, weight_decay=spec.weight_decay, fused=True
    )


@dataclass
class Run:
    """A run in memory: what the spec describes, and where it is."""

    spec: TrainSpec
    train: Dataset
    fabric: Fabric
    ranks: FabricRanks
    model: Classifier
    wrapped: Any
    optimizer: Any
    recipe: Recipe
    progress: checkpoint.Progress

    @classmethod
    def begin(cls, spec: TrainSpec, train: Dataset, fabric: Fabric | None = None) -> "Run":
        """At its first step."""
        if len(train) % spec.batch_size in range(1, spec.world_size):
            raise InputError(
                f"the last batch has {len(train) % spec.batch_size} examples for {spec.world_size} processes; "
                "choose another batch size or limit"
            )
        fabric = fabric or Devices(accelerator="cpu").fabric(spec)
        ranks = FabricRanks(fabric)
        model = build_model(spec, train)
        wrapped, optimizer = fabric.setup(model, build_optimizer(spec, model))
        wrapped.mark_forward_method("sample_logits")
        recipe = build_recipe(spec, train.num_classes, ranks)
        return cls(spec, train, fabric, ranks, model, wrapped, optimizer, recipe, checkpoint.Progress())

    @property
    def batches(self) -> int:
        """Batches an epoch; the last may be smaller."""
        return -(-len(self.train) // self.spec.batch_size)

    @property
    def steps(self) -> int:
        """Optimizer steps of the whole run."""
        return self.spec.epochs * self.batches

    def rate(self, step: int) -> float:
        """The learning rate of a step of the epoch under way."""
        spec = self.spec
        return learning_rate(spec.schedule, spec.lr, step, self.steps, self.progress.epoch, spec.epochs)

    def batch(self, index: torch.Tensor) -> torch.Tensor:
        """Descend the losses of this process's part of a batch, and give the last one's sum over the part.

        Gradients are averaged over the processes, so each weighs its mean by its part of the batch.
        """
        spec, progress, fabric = self.spec, self.progress, self.fabric
        part = index[fabric.global_rank :: fabric.world_size]
        weight = len(part) * fabric.world_size / len(index)
        x, y = data.gather(self.train, part)
        if spec.augment == "crop-flip":
            x = data.augment(x, part, draws.stream(spec.seed, "augment", progress.step))
        x, y, keys = fabric.to_device((x, y, part))
        tell(self.model, seed=spec.seed, step=progress.step, keys=keys, progress=progress.step / self.steps)
        for loss in self.recipe(self.wrapped, x, y, keys):
            for group in self.optimizer.param_groups:
                group["lr"] = self.rate(progress.step)
            self.optimizer.zero_grad(set_to_none=True)
            fabric.backward(loss if weight == 1 else loss * weight)
            self.optimizer.step()
            progress.step += 1
        return loss.detach() * len(part)
