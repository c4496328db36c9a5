"""The specs of a training run and of an evaluation."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ctrobust.specs.factory_name import NETWORK_NAMES, NetworkName, is_factory
from ctrobust.specs.fields import Count, NonNegative, Positive, Share, SpecModel
from ctrobust.specs.recipe import NaturalSpec, RecipeSpec


class ModelSpec(SpecModel):
    """The network: its architecture, and the regularizers in its head (`noise`) and its feature maps (`maps`).

    Constants of `maps` that are None are the paper's: DropBlock drops 0.1 in blocks of 3, Disout distorts 0.09 in
    blocks of 6 with alpha = 5. `name` may be a factory of the user, `package.module:function`; its network is trained
    as it is, or with `noise` before its last layer.
    """

    name: NetworkName = Field(default="mnistnet", examples=list(NETWORK_NAMES))
    width: Annotated[int, Field(ge=2)] = 64
    noise: Literal["dropout", "dropconnect", "none"] = "dropout"
    drop: Share = 0.5
    maps: Literal["none", "dropblock", "disout"] = "none"
    maps_drop: Share | None = Field(
        default=None, description="Share of the feature maps that `maps` covers at the end."
    )
    maps_block: Count | None = Field(default=None, description="Side of the blocks of dropblock and disout.")
    maps_alpha: NonNegative | None = Field(default=None, description="Strength of the distortion of disout.")
    head: str | None = Field(
        default=None, description="Layer of a network of your own before which `noise` is put; its last linear layer."
    )

    @property
    def is_user_network(self) -> bool:
        """Whether a factory of the user builds the network."""
        return is_factory(self.name)

    @model_validator(mode="after")
    def _check_user_network(self) -> Self:
        if not self.is_user_network:
            if self.head is not None:
                raise ValueError(f"head = {self.head!r} is for a network of your own, got {self.name!r}")
            return self
        for name in ("width", "maps"):
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(
                    f"{name} = {getattr(self, name)} is for the networks of ctrobust; set it inside {self.name}"
                )
        if self.head is not None and self.noise == "none":
            raise ValueError(f"head = {self.head!r} is where noise is put, and noise is 'none'; choose dropout")
        return self

    @model_validator(mode="after")
    def _check_maps(self) -> Self:
        for name, owners in (
            ("maps_drop", ("dropblock", "disout")),
            ("maps_block", ("dropblock", "disout")),
            ("maps_alpha", ("disout",)),
        ):
            if getattr(self, name) is not None and self.maps not in owners:
                allowed = " or ".join(repr(owner) for owner in owners)
                raise ValueError(f"{name} = {getattr(self, name):g} needs maps = {allowed}, got {self.maps!r}")
        return self


class ScheduleSpec(SpecModel):
    """The learning rate over the run.

    `cycle_momentum` lowers the momentum by 0.1 at the largest rate, as torch's CyclicLR does by default.
    """

    name: Literal["cyclic", "multistep"] = "cyclic"
    milestones: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = Field(default=(0.5, 0.75), strict=False)
    factor: Annotated[float, Field(gt=0, le=1)] = 0.1
    warmup: bool = False
    cycle_momentum: bool = False

    @model_validator(mode="after")
    def _check_milestones(self) -> Self:
        if list(self.milestones) != sorted(set(self.milestones)):
            raise ValueError(f"milestones must ascend, got {self.milestones}")
        return self

    @model_validator(mode="after")
    def _check_momentum(self) -> Self:
        if self.cycle_momentum and self.name != "cyclic":
            raise ValueError(f"cycle_momentum needs schedule.name = 'cyclic', got {self.name!r}")
        return self


RateChange = Annotated[tuple[Count, Positive], Field(strict=False)]


class TrainSpec(SpecModel):
    """One training run, field by field. `train_spec` makes one with the defaults for its data and recipe."""

    data: str = "digits"
    limit: Count | None = None
    augment: Literal["none", "crop-flip"] = "none"
    model: ModelSpec = ModelSpec()
    recipe: RecipeSpec = NaturalSpec()
    schedule: ScheduleSpec = ScheduleSpec()
    epochs: Count = 10
    batch_size: Count = 128
    lr: Positive = 0.01
    momentum: Share = 0.9
    weight_decay: NonNegative = 5e-4
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] = 0
    precision: Literal["fp32", "bf16"] = "fp32"
    world_size: Count = 1
    ema: Share = 0.0
    validation: Annotated[int, Field(ge=0)] = 0
    stop_on_collapse: bool = False
    lr_changes: tuple[RateChange, ...] = Field(
        default=(),
        strict=False,
        description="Pairs of a number of finished epochs and the largest rate from there on.",
    )

    @model_validator(mode="after")
    def _check_lr_changes(self) -> Self:
        after = [epochs for epochs, _ in self.lr_changes]
        if after != sorted(set(after)) or any(epochs >= self.epochs for epochs in after):
            raise ValueError(f"lr_changes must ascend and be after fewer than {self.epochs} epochs, got {after}")
        return self

    @model_validator(mode="after")
    def _check_batch_size(self) -> Self:
        if self.batch_size < self.world_size:
            raise ValueError(f"batch_size = {self.batch_size} cannot be shared by {self.world_size} processes")
        return self

    @model_validator(mode="after")
    def _check_samples(self) -> Self:
        samples = self.recipe.samples if isinstance(self.recipe, NaturalSpec) else 1
        if samples > 1 and self.model.noise == "none":
            raise ValueError(f"samples = {samples} needs model.noise: without it all samples are the same")
        return self

    @model_validator(mode="after")
    def _check_collapse(self) -> Self:
        if self.stop_on_collapse and isinstance(self.recipe, NaturalSpec):
            raise ValueError("stop_on_collapse is for adversarial recipes: natural training does not collapse")
        return self


class EvaluationSpec(SpecModel):
    """One attack on one weights file; the outcomes are stored under the hash of this spec."""

    data: str
    split: Literal["train", "test"] = "test"
    limit: Count | None = None
    attack: str
    chunk: Count = 256
    weights: str = Field(description="the first 16 digits of the SHA-256 of the weights file")
    contents: str | None = Field(default=None, description="the digest of data that differ from the published ones")
    revision: int = Field(default=0, description="the revision of the attack that made the outcomes")
    repeats: Count = Field(default=1, description="the passes that are averaged, if the network draws at random")
