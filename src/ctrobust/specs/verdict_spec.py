"""The spec of one verdict on gradient masking."""

from typing import Literal

from pydantic import Field

from ctrobust.specs.fields import Count, Positive, SpecModel


class VerdictSpec(SpecModel):
    """The masking tests on one weights file; what they measured is stored under the hash of this spec."""

    data: str
    split: Literal["train", "test"] = "test"
    limit: Count | None = 256
    eps: Positive
    norm: Literal["linf", "l2"] = "linf"
    seed: int = 0
    weights: str = Field(description="the first 16 digits of the SHA-256 of the weights file")
    contents: str | None = Field(default=None, description="the digest of data that differ from the published ones")
    revision: int = Field(default=0, description="raised when a test measures something else")
