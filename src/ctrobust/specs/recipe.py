"""How a run turns a batch into losses: one spec per recipe, distinguished by `name`.

A new recipe adds its class here and one entry to RECIPE_SPECS.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, Union

from pydantic import Discriminator, Field, Tag, model_validator

from ctrobust.specs.fields import Count, Gamma, NonNegative, Radius, SpecModel, UnitInterval, Unsigned

LOSS_CONSTANTS: dict[str, tuple[str, str]] = {
    "smoothing": ("label-smoothing", "epsilon"),
    "focal_exponent": ("focal", "gamma"),
    "relaxation": ("label-relaxation", "alpha"),
    "soft_weight": ("online-label-smoothing", "soft_weight"),
}
"""Field of natural training -> the loss that it belongs to, and the argument of the loss that it sets."""


class NaturalSpec(SpecModel):
    """Natural training. `samples` is K; rho = 0 with K > 1 is multi-sample dropout, rho > 0 is MDL.

    The constants of the losses are the paper's where they are None: smoothing 0.1, focal_exponent 2, relaxation 0.1,
    soft_weight 0.5.
    """

    name: Literal["natural"] = "natural"
    loss: Literal["ce", "label-smoothing", "focal", "label-relaxation", "online-label-smoothing"] = "ce"
    samples: Count = 1
    rho: NonNegative = 0.0
    eta: Annotated[float, Field(ge=0, le=100), Unsigned] = 100.0
    diversity: Literal["cosine", "pearson"] = "cosine"
    smoothing: UnitInterval | None = Field(default=None, description="Epsilon of label smoothing.")
    focal_exponent: NonNegative | None = Field(default=None, description="Exponent of the focal loss.")
    relaxation: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None, description="Alpha of label relaxation."
    )
    soft_weight: UnitInterval | None = Field(
        default=None, description="Weight of the soft labels in online label smoothing."
    )

    @model_validator(mode="after")
    def _check_mdl(self) -> Self:
        if self.rho > 0 and self.samples < 2:
            raise ValueError(f"rho = {self.rho:g} compares pairs of sub-networks and needs samples >= 2")
        for name in ("eta", "diversity"):
            if self.rho == 0 and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name} = {getattr(self, name)!r} belongs to MDL and needs rho > 0")
        return self

    @model_validator(mode="after")
    def _check_loss_constants(self) -> Self:
        for name, (loss, _) in LOSS_CONSTANTS.items():
            if getattr(self, name) is not None and self.loss != loss:
                raise ValueError(f"{name} = {getattr(self, name):g} needs loss = {loss!r}, got {self.loss!r}")
        return self

    @property
    def loss_constants(self) -> dict[str, float]:
        """The constants that are given, by the name of the loss function's argument."""
        given = {argument: getattr(self, name) for name, (_, argument) in LOSS_CONSTANTS.items()}
        return {argument: value for argument, value in given.items() if value is not None}


class AdversarialSpec(SpecModel):
    """Fields that all adversarial recipes share; gamma = 0 is the published baseline.

    `gamma_in` chooses whether gamma acts in the attack, the descent or both. step_size None follows eps: at 8/255 it
    is the published step. `name` has no default in a subclass, so canonical JSON always contains it. `rates` holds the
    learning rates on CIFAR by schedule; each subclass must define it.
    """

    rates: ClassVar[Mapping[str, float]]

    name: str
    loss: str = "sce"
    eps: Radius = 8 / 255
    step_size: Radius | None = None
    gamma: Gamma = 0.0
    gamma_in: Literal["both", "attack", "descent"] = "both"

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        if "rates" not in cls.__dict__:
            raise TypeError(f"{cls.__name__} must define `rates`, its learning rates on CIFAR by schedule")

    @model_validator(mode="after")
    def _check_gamma(self) -> Self:
        if self.gamma > 0 and self.loss == "std":
            raise ValueError(f"gamma = {self.gamma:g} has no effect with loss = 'std', which is STD alone")
        if self.gamma == 0 and self.gamma_in != "both":
            raise ValueError(f"gamma_in = {self.gamma_in!r} needs gamma > 0")
        return self


class FastSpec(AdversarialSpec):
    """Fast-AT: one step of 10/255, or 1.25 eps. `loss` "sce" is CE for gamma = 0; "std" is STD alone."""

    rates: ClassVar[Mapping[str, float]] = {"cyclic": 0.2, "multistep": 0.2}
    name: Literal["fast"]
    loss: Literal["sce", "std"] = "sce"


class MadrySpec(AdversarialSpec):
    """Madry-AT: steps of 2/255, or eps / 4."""

    rates: ClassVar[Mapping[str, float]] = {"cyclic": 0.2, "multistep": 0.2}
    name: Literal["madry"]
    loss: Literal["sce", "std"] = "sce"
    steps: Count = 7


class FreeSpec(AdversarialSpec):
    """Free-AT: one step of eps for each replay of a batch."""

    rates: ClassVar[Mapping[str, float]] = {"cyclic": 0.1, "multistep": 0.1}
    name: Literal["free"]
    loss: Literal["sce", "std"] = "sce"
    replays: Count = 8


class TradesSpec(AdversarialSpec):
    """TRADES: steps of 0.007, or 0.223125 eps. `loss` "skl" is KL for gamma = 0; "std" is STD alone.

    `second_clean_pass` passes x twice in training mode, as the published code does.
    """

    rates: ClassVar[Mapping[str, float]] = {"cyclic": 0.2, "multistep": 0.1}
    name: Literal["trades"]
    loss: Literal["skl", "std"] = "skl"
    steps: Count = 10
    beta: NonNegative = 6.0
    std_at: Literal["adv", "clean"] = "adv"
    second_clean_pass: bool = False

    @model_validator(mode="after")
    def _check_std_at(self) -> Self:
        if self.gamma == 0 and self.std_at != "adv":
            raise ValueError(f"std_at = {self.std_at!r} needs gamma > 0: without gamma the loss contains no STD")
        if self.second_clean_pass and self.loss == "std":
            raise ValueError("second_clean_pass has no effect with loss = 'std', which contains no divergence")
        return self


class NFGSMSpec(AdversarialSpec):
    """N-FGSM: noise of 2 eps, then one step of eps that is not clipped to the ball."""

    rates: ClassVar[Mapping[str, float]] = {"cyclic": 0.2, "multistep": 0.2}
    name: Literal["n-fgsm"]
    loss: Literal["sce", "std"] = "sce"


RECIPE_SPECS: dict[str, type[NaturalSpec] | type[AdversarialSpec]] = {
    "natural": NaturalSpec,
    "fast": FastSpec,
    "madry": MadrySpec,
    "free": FreeSpec,
    "trades": TradesSpec,
    "n-fgsm": NFGSMSpec,
}


def recipe_name(recipe: Any) -> str | None:
    """The name of a recipe given as a table or a spec; a table without a name is natural training."""
    if isinstance(recipe, Mapping):
        return str(recipe.get("name", "natural"))
    return recipe.name if isinstance(recipe, NaturalSpec | AdversarialSpec) else None


if TYPE_CHECKING:
    RecipeSpec = NaturalSpec | AdversarialSpec
else:
    RecipeSpec = Annotated[
        Union[tuple(Annotated[spec, Tag(name)] for name, spec in RECIPE_SPECS.items())],  # noqa: UP007
        Discriminator(recipe_name),
    ]
