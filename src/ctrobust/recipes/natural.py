"""Natural training: cross-entropy under dropout, multi-sample dropout, MDL and MDL-PCC."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from ctrobust import losses
from ctrobust.recipes.contract import Network


@dataclass(frozen=True)
class Natural:
    """One loss a batch: the mean of the base loss, or with K > 1 samples of MDL(K, rho, eta).

    Attributes:
        loss: the base loss, (logits, y) -> (N,).
        samples: K, how many sub-networks are drawn a step. With K = 1 nothing is compared.
        rho: weight of the similarity of the wrong categories; 0 is multi-sample dropout.
        eta: percentile of the batch, by loss, on which the similarity counts.
        diversity: "cosine" (MDL) or "pearson" (MDL-PCC).
    """

    loss: Callable[[Tensor, Tensor], Tensor] = losses.cross_entropy
    samples: int = 1
    rho: float = 0.0
    eta: float = 100.0
    diversity: Literal["cosine", "pearson"] = "cosine"

    def __call__(self, model: Network, x: Tensor, y: Tensor, keys: Tensor) -> Iterator[Tensor]:  # noqa: ARG002
        """Yield the batch's loss once."""
        if self.samples == 1:
            yield self.loss(model(x), y).mean()
        else:
            logits = model.sample_logits(x, self.samples)
            yield losses.mdl(
                logits, y, rho=self.rho, eta=self.eta, diversity=self.diversity, base=self.loss
            ).mean()  # fmt: skip

    def end_epoch(self) -> None:
        """Nothing changes between epochs."""

    def state_dict(self) -> dict[str, Tensor]:
        """Nothing to remember."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Nothing to restore."""
