"""The spec of a network of the user that was trained elsewhere and is evaluated here."""

from typing import Annotated

from pydantic import Field

from ctrobust.specs.factory_name import FactoryName
from ctrobust.specs.fields import SpecModel
from ctrobust.specs.run_spec import TrainSpec

Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Channels = Annotated[tuple[float, ...], Field(strict=False)]


class UserModelSpec(SpecModel):
    """A network that a factory of the user builds, on one data set; its outcomes have a directory of their own."""

    factory: FactoryName
    data: str
    network: Digest = Field(description="SHA-256 of the factory's name and of all tensors of the network")
    weights: Digest | None = Field(
        default=None, description="SHA-256 of the weights file; None if the factory loads the weights"
    )
    mean: Channels | None = None
    std: Channels | None = None


RunSpec = TrainSpec | UserModelSpec
"""What a run directory describes."""
