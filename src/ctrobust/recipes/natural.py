"""Natural training: a base loss under dropout, multi-sample dropout, MDL and MDL-PCC."""

from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from torch import Tensor

from ctrobust import losses
from ctrobust.errors import InputError
from ctrobust.model_outputs import as_logits
from ctrobust.recipes.interface import Network
from ctrobust.recipes.online_smoothing import OnlineSmoothing
from ctrobust.recipes.processes import Processes, SingleProcess
from ctrobust.recipes.recipe_losses import warn_of_softmax


class Natural:
    """Natural training: one loss per batch, the mean of the base loss or, with K > 1 samples, of MDL(K, rho, eta)."""

    one_step_size: float | None = None

    def __init__(
        self,
        loss: Callable[[Tensor, Tensor], Tensor] | OnlineSmoothing = losses.cross_entropy,
        samples: int = 1,
        rho: float = 0.0,
        eta: float = 100.0,
        diversity: Literal["cosine", "pearson"] = "cosine",
        processes: Processes | None = None,
    ) -> None:
        """Set up natural training.

        Args:
            loss: the base loss, (logits, y) -> (N,), or the state of online label smoothing.
            samples: K, the number of sub-networks drawn per step; K = 1 is the base loss alone.
            rho: weight of the similarity of the wrong probabilities; 0 is multi-sample dropout.
            eta: percentage of the whole batch, easiest examples first, for which the similarity counts.
            diversity: "cosine" (MDL) or "pearson" (MDL-PCC).
            processes: the processes that share the batch; None is a single process.
        """
        self.loss, self.samples, self.rho, self.eta, self.diversity = loss, samples, rho, eta, diversity
        self.processes = processes or SingleProcess()

    def __call__(self, model: Network, x: Tensor, y: Tensor, keys: Tensor | None = None) -> Iterator[Tensor]:  # noqa: ARG002
        """Yield the batch's loss once."""
        if self.samples == 1:
            logits = as_logits(model(x))
            values = self._base(logits, y)
            outputs = logits.unsqueeze(0)
        else:
            if not hasattr(model, "sample_logits"):
                raise InputError(
                    f"{type(model).__name__} has no method sample_logits, which draws {self.samples} sub-networks; "
                    "ctrobust.models.split gives a module noise and this method"
                )
            outputs = model.sample_logits(x, self.samples)
            values = losses.mdl(
                outputs, y, rho=self.rho, eta=self.eta, diversity=self.diversity, base=self._base,
                threshold=self._threshold(outputs, y),
            )  # fmt: skip
        warn_of_softmax(outputs[0])
        if isinstance(self.loss, OnlineSmoothing):
            self.loss.observe(outputs.detach().float().softmax(-1).mean(0), y)
        yield values.mean()

    def _base(self, logits: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.loss, OnlineSmoothing):
            soft_labels = self.loss.soft_labels.to(logits.device)
            return losses.online_label_smoothing(logits, y, soft_labels, self.loss.soft_weight)
        return self.loss(logits, y)

    def _threshold(self, outputs: Tensor, y: Tensor) -> Tensor | None:
        """MDL's percentile over the batches of all processes; None if MDL uses no mask."""
        if self.rho == 0 or self.eta == 100:
            return None
        return losses.mask_threshold(self.processes.gather(losses.mask_score(outputs, y)), self.eta)

    def end_epoch(self) -> None:
        if isinstance(self.loss, OnlineSmoothing):
            self.loss.end_epoch()

    def state_dict(self) -> dict[str, Tensor]:
        return self.loss.state_dict() if isinstance(self.loss, OnlineSmoothing) else {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        if isinstance(self.loss, OnlineSmoothing):
            self.loss.load_state_dict(state)
