"""The spec of one curve: accuracy against the radius of an attack."""

from typing import Annotated, Literal

from pydantic import Field

from ctrobust.specs.fields import Count, Positive, SpecModel


class CurveSpec(SpecModel):
    """One attack at rising radii on one weights file; the curve is stored under the hash of this spec."""

    data: str
    split: Literal["train", "test"] = "test"
    limit: Count | None = None
    attack: str = Field(description="the attack at the largest radius")
    radii: tuple[Positive, ...] = Field(strict=False)
    bisections: Annotated[int, Field(ge=0)] = 0
    chunk: Count = 256
    weights: str = Field(description="the first 16 digits of the SHA-256 of the weights file")
    contents: str | None = Field(default=None, description="the digest of data that differ from the published ones")
    revision: int = Field(default=0, description="the revision of the attack")
    repeats: Count = Field(default=1, description="the passes that are averaged, if the network draws at random")
