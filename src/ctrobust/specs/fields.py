"""What all specs are made of."""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

Count = Annotated[int, Field(ge=1)]
Unsigned = AfterValidator(lambda value: value + 0.0)  # -0.0 is 0.0, in the spec's hash too
Share = Annotated[float, Field(ge=0, lt=1), Unsigned]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False), Unsigned]
Gamma = Annotated[float, Field(ge=0, le=100), Unsigned]  # more would overflow exp(gamma STD)
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def _fraction(value: Any) -> Any:
    """The number that a text like "8/255" means; anything else is left, to be refused."""
    try:
        above, _, below = value.partition("/")
        return float(above) / float(below or 1)
    except (AttributeError, ValueError, ZeroDivisionError):
        return value


Radius = Annotated[float, BeforeValidator(_fraction), Field(gt=0, le=1)]


class SpecModel(BaseModel):
    """Frozen, and strict: an unknown key or a value of another type is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
