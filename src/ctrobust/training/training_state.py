"""A run in memory: model, optimizer and recipe as the spec describes them, and their training step."""

import contextlib
import copy
import inspect
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric

from ctrobust import data, draws
from ctrobust.data import Dataset
from ctrobust.errors import InputError
from ctrobust.evaluation import check_network, check_trainable
from ctrobust.losses import LOSSES
from ctrobust.models import Classifier, build_from_spec, save_weights
from ctrobust.recipes import RECIPES, AttackableModel, OnlineSmoothing, Processes, Recipe
from ctrobust.regularizers import set_step
from ctrobust.specs import LOSS_CONSTANTS, FreeSpec, NaturalSpec, TrainSpec
from ctrobust.training import checkpoint
from ctrobust.training.devices import Devices, FabricProcesses, UnwrappedModel
from ctrobust.training.schedules import cycled_momentum, learning_rate, peak_rate
from ctrobust.training.validation_split import hold_out
from ctrobust.training.weight_average import WeightAverage


def build_recipe(
    spec: TrainSpec, num_classes: int, processes: Processes, attack_model: AttackableModel | None = None
) -> Recipe:
    """Make the recipe of a spec from its fields and those of seed, `processes` and `attack_model` that it takes."""
    recipe = spec.recipe
    fields = recipe.model_dump(exclude={"name", *LOSS_CONSTANTS})
    if isinstance(recipe, NaturalSpec):
        if recipe.loss == "online-label-smoothing":
            fields["loss"] = OnlineSmoothing(num_classes, processes, **recipe.loss_constants)
        else:
            fields["loss"] = partial(LOSSES[recipe.loss], **recipe.loss_constants)
    kind = RECIPES[recipe.name]
    shared = {"seed": spec.seed, "attack_model": attack_model, "processes": processes}
    taken = inspect.signature(kind).parameters
    return kind(**fields, **{name: value for name, value in shared.items() if name in taken})


def build_model(spec: TrainSpec, train: Dataset, factory: str | None = None) -> Classifier:
    """Make the network with initial weights drawn from the seed; torch's global generator is left unchanged.

    `factory` builds a network of the user, which is checked on two images.
    """
    size = (train.images.shape[2], train.images.shape[3])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(spec.seed)
        model = build_from_spec(spec.model, train.in_channels, train.num_classes, train.mean, train.std, size, factory)
    if spec.model.is_user_network:
        check_network(model, train, spec.model.name)
        check_trainable(model, train, spec.model.name)
    return model


def build_optimizer(spec: TrainSpec, model: Classifier) -> torch.optim.SGD:
    """Make the optimizer, SGD; the fused form reads the parameters once per step."""
    return torch.optim.SGD(
        model.parameters(), lr=spec.lr, momentum=spec.momentum, weight_decay=spec.weight_decay, fused=True
    )


@dataclass
class TrainingState:
    """A run in memory.

    Attributes:
        train: the training set, without the validation set.
        validation_set: the images held out, or None.
        model: the network.
        wrapped: the same network in the run's precision, and under DDP if there are several processes.
        average: the moving average of the weights, if the spec has one.
        last_good: copies of the networks after the last epoch that had not collapsed, if the run stops at a collapse.
    """

    spec: TrainSpec
    train: Dataset
    validation_set: Dataset | None
    fabric: Fabric
    processes: FabricProcesses
    model: Classifier
    wrapped: Any
    optimizer: Any
    recipe: Recipe
    progress: checkpoint.TrainingProgress
    average: WeightAverage | None
    last_good: dict[str, Classifier]

    @classmethod
    def begin(
        cls, spec: TrainSpec, train: Dataset, fabric: Fabric | None = None, factory: str | None = None
    ) -> "TrainingState":
        """Make the state before the first step; `factory` builds a network of the user."""
        contents = None if train.verified else train.digest()
        train, validation_set = hold_out(train, spec.validation)
        if len(train) % spec.batch_size in range(1, spec.world_size):
            raise InputError(
                f"the last batch has {len(train) % spec.batch_size} examples for {spec.world_size} processes; "
                "choose another batch size or limit"
            )
        fabric = fabric or Devices(accelerator="cpu").fabric(spec)
        processes = FabricProcesses(fabric)
        model = build_model(spec, train, factory)
        with warnings.catch_warnings():  # newer versions of torch renamed the argument, older ones know only this name
            warnings.filterwarnings("ignore", message=".*broadcast_buffers.* is deprecated")
            wrapped, optimizer = fabric.setup(model, build_optimizer(spec, model))
        unwrapped = UnwrappedModel(model, fabric)
        if fabric.world_size > 1:
            wrapped.mark_forward_method("sample_logits")
        else:
            wrapped = unwrapped  # fabric's own wrapper uses autocast in `forward` only, not in `sample_logits`
        recipe = build_recipe(spec, train.num_classes, processes, unwrapped)
        state = cls(
            spec, train, validation_set, fabric, processes, model, wrapped, optimizer, recipe,
            checkpoint.TrainingProgress(data=contents),
            WeightAverage(model, spec.ema) if spec.ema else None, {},
        )  # fmt: skip
        if spec.stop_on_collapse:
            state.last_good = {name: copy.deepcopy(network) for name, network in state.networks.items()}
        return state

    @property
    def networks(self) -> dict[str, Classifier]:
        """The trained network and, if there is one, the weight average."""
        return {"model": self.model, **({"average": self.average.model} if self.average else {})}

    @property
    def copies(self) -> dict[str, Classifier]:
        """The networks that a checkpoint holds besides the trained one."""
        average = {"average": self.average.model} if self.average else {}
        return {**average, **{f"good.{name}": network for name, network in self.last_good.items()}}

    @property
    def result(self) -> Classifier:
        """The network that the run produces: the weight average if there is one."""
        return self.average.model if self.average else self.model

    @property
    def eps(self) -> float | None:
        """The radius of an adversarial recipe; None for natural training."""
        return None if isinstance(self.spec.recipe, NaturalSpec) else self.spec.recipe.eps

    def save_weights(self, path: Path) -> None:
        """Write the weights of the network that the run produces."""
        save_weights(
            path, self.result, self.spec.model,
            in_channels=self.train.in_channels, classes=self.train.classes, data=self.train.name,
            image_size=(self.train.images.shape[2], self.train.images.shape[3]),
        )  # fmt: skip

    def save_last_good(self) -> None:
        """Copy the networks, if the run stops at a collapse."""
        for name, network in self.last_good.items():
            network.load_state_dict(self.networks[name].state_dict())

    def restore_last_good(self) -> None:
        """Load the weights of the last epoch that had not collapsed."""
        for name, network in self.networks.items():
            network.load_state_dict(self.last_good[name].state_dict())

    @property
    def batches(self) -> int:
        """Number of batches per epoch; the last batch may be smaller."""
        return -(-len(self.train) // self.spec.batch_size)

    @property
    def steps(self) -> int:
        """Number of optimizer steps of the whole run, each replay of Free-AT counted."""
        return self.spec.epochs * self.batches * self.replays

    @property
    def replays(self) -> int:
        """Number of optimizer steps per batch."""
        return self.spec.recipe.replays if isinstance(self.spec.recipe, FreeSpec) else 1

    def rate(self, step: int) -> float:
        """The learning rate of a step of the current epoch."""
        spec = self.spec
        return learning_rate(spec.schedule, self.peak_rate, step, self.steps, self.progress.epoch, spec.epochs)

    @property
    def peak_rate(self) -> float:
        """The largest rate of the schedule, as it is in the current epoch."""
        return peak_rate(self.spec, self.progress.epoch)

    def order(self) -> torch.Tensor:
        """The indices of the examples in the order of the current epoch."""
        return draws.permutation(len(self.train), draws.stream(self.spec.seed, "order", self.progress.epoch))

    def first_images(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The 256 training images and labels with which the current epoch began, for collapse detection."""
        return self.images(self.order()[:256], self.progress.epoch * self.batches * self.replays)

    def images(self, index: torch.Tensor, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Images and labels of the batch that begins at optimizer step `step`, augmented, on the run's device."""
        x, y = data.gather(self.train, index)
        if self.spec.augment == "crop-flip":
            x = data.augment(x, index, draws.stream(self.spec.seed, "augment", step))
        x, y = self.fabric.to_device((x, y))
        return x, y

    def train_batch(self, index: torch.Tensor) -> torch.Tensor:
        """Train on this process's share of a batch, and return the sum of the last loss over the share, on its device.

        DDP averages gradients over the processes, so each process weights its mean loss by its share of the batch.
        """
        spec, progress, fabric = self.spec, self.progress, self.fabric
        share = index[fabric.global_rank :: fabric.world_size]
        weight = len(share) * fabric.world_size / len(index)
        x, y = self.images(share, progress.step)
        keys = fabric.to_device(share)
        self.processes.share_buffers(self.model)
        set_step(self.model, seed=spec.seed, step=progress.step, keys=keys, progress=progress.step / self.steps)
        with self.network_draws():
            for loss in _explain_batchnorm_error(self.recipe(self.wrapped, x, y, keys), len(share)):
                for group in self.optimizer.param_groups:
                    group["lr"] = self.rate(progress.step)
                    group["momentum"] = cycled_momentum(spec.schedule, spec.momentum, progress.step, self.steps)
                self.optimizer.zero_grad(set_to_none=True)
                fabric.backward(loss if weight == 1 else loss * weight)
                self.optimizer.step()
                if self.average:
                    self.average.update(self.model, progress.step)
                progress.step += 1
        return loss.detach() * len(share)

    @contextlib.contextmanager
    def network_draws(self) -> Iterator[None]:
        """Seed torch's generator by the step for a network of the user, whose own dropout then resumes to the same."""
        if not self.spec.model.is_user_network:
            yield
            return
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(draws.stream(self.spec.seed, "network", self.progress.step, self.processes.index))
            yield


def _explain_batchnorm_error(losses: Iterator[torch.Tensor], count: int) -> Iterator[torch.Tensor]:
    """Yield the losses of a batch of `count` examples; if the batch is too small for BatchNorm, raise an InputError."""
    try:
        yield from losses
    except ValueError as error:
        if "more than 1 value per channel" not in str(error):
            raise
        raise InputError(
            f"BatchNorm cannot normalize a batch of {count} images that shrink to one pixel; "
            "choose another batch size or limit"
        ) from None
