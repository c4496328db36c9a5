"""The state of online label smoothing: the mean output for each class in the last epoch."""

from collections.abc import Mapping

import torch
from torch import Tensor

from ctrobust.argument_checks import check_number
from ctrobust.recipes.processes import Processes, SingleProcess


class OnlineSmoothing:
    """Soft labels S (C, C): row y is the mean output of the last epoch's correctly classified examples of class y.

    S starts at zero, so the first epoch descends half of CE. A class without a correctly classified example gets a
    uniform row. `soft_weight` is the weight of the soft labels in the loss.
    """

    def __init__(self, num_classes: int, processes: Processes | None = None, soft_weight: float = 0.5) -> None:
        check_number(soft_weight, "soft_weight", high=1)
        self.processes, self.soft_weight = processes or SingleProcess(), soft_weight
        self.soft_labels = torch.zeros(num_classes, num_classes)
        self.sums = torch.zeros(num_classes, num_classes)
        self.counts = torch.zeros(num_classes)

    @torch.no_grad()
    def observe(self, probabilities: Tensor, y: Tensor) -> None:
        """Add the outputs (N, C) of the correctly classified examples."""
        correct = probabilities.argmax(1) == y
        # Zeros are added for the others, because indexing with a mask makes the host wait for the device. The sums stay
        # on the CPU, where the order of summation is fixed.
        outputs = probabilities.float().masked_fill(~correct[:, None], 0.0)
        self.sums.index_add_(0, y.cpu(), outputs.cpu())
        self.counts.index_add_(0, y.cpu(), correct.float().cpu())

    def end_epoch(self) -> None:
        """Turn the sums of all processes into the soft labels of the next epoch."""
        sums, counts = self.processes.sum(self.sums), self.processes.sum(self.counts)[:, None]
        uniform = torch.full_like(sums, 1 / len(sums))
        self.soft_labels = torch.where(counts > 0, sums / counts.clamp(min=1), uniform)
        self.sums, self.counts = torch.zeros_like(self.sums), torch.zeros_like(self.counts)

    def state_dict(self) -> dict[str, Tensor]:
        """The soft labels, and the sums of each process in the current epoch.

        The sums are kept apart because their total would round differently after a resume.
        """
        sums, counts = self.processes.gather(self.sums[None]), self.processes.gather(self.counts[None])
        return {"soft_labels": self.soft_labels, "sums": sums, "counts": counts}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.soft_labels = state["soft_labels"].clone()
        self.sums, self.counts = (state[name][self.processes.index].clone() for name in ("sums", "counts"))
