"""How a run makes losses of a batch: one spec a recipe, told apart by `name`."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from ctrobust.specs.fields import Count, Gamma, NonNegative, Radius, SpecModel, Unsigned


class NaturalSpec(SpecModel):
    """Natural training: `samples` is K; rho = 0 with K > 1 is multi-sample dropout, rho > 0 MDL."""

    name: Literal["natural"] = "natural"
    loss: Literal["ce", "label-smoothing", "focal", "label-relaxation", "online-label-smoothing"] = "ce"
    samples: Count = 1
    rho: NonNegative = 0.0
    eta: Annotated[float, Field(ge=0, le=100), Unsigned] = 100.0
    diversity: Literal["cosine", "pearson"] = "cosine"

    @model_validator(mode="after")
    def _pairs(self) -> Self:
        if self.rho > 0 and self.samples < 2:
            raise ValueError(f"rho = {self.rho:g} compares pairs of sub-networks and needs samples >= 2")
        for name in ("eta", "diversity"):
            if self.rho == 0 and getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name} = {getattr(self, name)!r} is MDL's and needs rho > 0")
        return self


class _Adversarial(SpecModel):
    """What all adversarial recipes have; `gamma` = 0 is the published baseline. A name without default is always kept.

    `gamma_in` says where gamma acts; step_size None follows eps: at 8/255 it is the published one.
    """

    loss: str = "sce"
    eps: Radius = 8 / 255
    step_size: Radius | None = None
    gamma: Gamma = 0.0
    gamma_in: Literal["both", "attack", "descent"] = "both"

    @model_validator(mode="after")
    def _used(self) -> Self:
        if self.gamma > 0 and self.loss == "std":
            raise ValueError(f"gamma = {self.gamma:g} has no part in loss = 'std', which is STD alone")
        if self.gamma == 0 and self.gamma_in != "both":
            raise ValueError(f"gamma_in = {self.gamma_in!r} needs gamma > 0")
        return self


class FastSpec(_Adversarial):
    """Fast-AT: one step of 10/255, or 1.25 eps. `loss` "sce" is CE for gamma = 0; "std" is STD alone."""

    name: Literal["fast"]
    loss: Literal["sce", "std"] = "sce"


class MadrySpec(_Adversarial):
    """Madry-AT: steps of 2/255, or eps / 4."""

    name: Literal["madry"]
    loss: Literal["sce", "std"] = "sce"
    steps: Count = 7


class FreeSpec(_Adversarial):
    """Free-AT: a step of eps for each replay of a batch."""

    name: Literal["free"]
    loss: Literal["sce", "std"] = "sce"
    replays: Count = 8


class TradesSpec(_Adversarial):
    """TRADES: steps of 0.007, or 0.223125 eps. `loss` "skl" is KL for gamma = 0; "std" is STD alone."""

    name: Literal["trades"]
    loss: Literal["skl", "std"] = "skl"
    steps: Count = 10
    beta: NonNegative = 6.0
    std_at: Literal["adv", "clean"] = "adv"

    @model_validator(mode="after")
    def _deviates(self) -> Self:
        if self.gamma == 0 and self.std_at != "adv":
            raise ValueError(f"std_at = {self.std_at!r} needs gamma > 0: without it there is no deviation")
        return self


RECIPE_SPECS: dict[str, type[NaturalSpec | FastSpec | MadrySpec | FreeSpec | TradesSpec]] = {
    "natural": NaturalSpec, "fast": FastSpec, "madry": MadrySpec, "free": FreeSpec, "trades": TradesSpec,
}  # fmt: skip


def recipe_name(recipe: Any) -> str | None:
    """What a recipe is called; one that does not say is natural."""
    if isinstance(recipe, Mapping):
        return str(recipe.get("name", "natural"))
    return recipe.name if isinstance(recipe, NaturalSpec | FastSpec | MadrySpec | FreeSpec | TradesSpec) else None


RecipeSpec = Annotated[
    Annotated[NaturalSpec, Tag("natural")]
    | Annotated[FastSpec, Tag("fast")]
    | Annotated[MadrySpec, Tag("madry")]
    | Annotated[FreeSpec, Tag("free")]
    | Annotated[TradesSpec, Tag("trades")],
    Discriminator(recipe_name),
]
