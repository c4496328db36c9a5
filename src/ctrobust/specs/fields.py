"""Field types and the base class that all specs share."""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

Count = Annotated[int, Field(ge=1, le=10**9)]
Unsigned = AfterValidator(lambda value: value + 0.0)  # turns -0.0 into 0.0, so that both have one hash
Share = Annotated[float, Field(ge=0, lt=1), Unsigned]
UnitInterval = Annotated[float, Field(ge=0, le=1), Unsigned]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False), Unsigned]
Gamma = Annotated[float, Field(ge=0, le=100), Unsigned]  # a larger gamma would overflow exp(gamma STD)
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def parse_fraction(value: Any) -> Any:
    """Convert text like "8/255" to a number; leave anything else for the validator to reject."""
    try:
        above, _, below = value.partition("/")
        return float(above) / float(below or 1)
    except (AttributeError, ValueError, ZeroDivisionError):
        return value


Radius = Annotated[float, BeforeValidator(parse_fraction), Field(gt=0, le=1)]


class SpecModel(BaseModel):
    """A frozen and strict model: unknown keys and values of another type are rejected."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
