"""What all specs are made of."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Count = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(ge=0, lt=1)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def _fraction(value: Any) -> Any:
    """The number that a text like "8/255" means; anything else is left, to be refused."""
    try:
        above, _, below = value.partition("/")
        return float(above) / float(below or 1)
    except (AttributeError, ValueError, ZeroDivisionError):
        return value


Radius = Annotated[float, BeforeValidator(_fraction), Field(gt=0, le=1)]


class Part(BaseModel):
    """Frozen, and strict: an unknown key or a value of another type is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
