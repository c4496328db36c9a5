"""What the command line says about the network to evaluate."""

from dataclasses import dataclass
from pathlib import Path

from ctrobust.specs import is_factory


@dataclass(frozen=True)
class TargetOptions:
    """A network, named in one of three ways, and its images.

    Attributes:
        target: a run directory, a weights file, or a factory `package.module:function`.
        data, data_root, split: the images; `data` None are those that the network was trained for.
        model: the factory of a run whose network a factory of the user built.
        weights, mean, std, out: for a factory as the target: the weights file, the normalization as comma-separated
            numbers, and the directory of the outcomes.
    """

    target: Path
    data: str | None = None
    data_root: Path | None = None
    split: str = "test"
    model: str | None = None
    weights: Path | None = None
    mean: str | None = None
    std: str | None = None
    out: Path | None = None

    @property
    def is_factory(self) -> bool:
        return is_factory(str(self.target)) and not self.target.exists()
