"""The losses and the predictions along the steps of PGD."""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from ctrobust.attacks import PGD
from ctrobust.attacks.attack_losses import log_odds
from ctrobust.attacks.stages import run_attack


@dataclass(eq=False)
class RecordedLoss:
    """Cross-entropy in its log-space form, as a loss for attacks that keeps what it was called with.

    Attributes:
        values: at each step the losses (N,).
        wrong: at each step whether (N,) the iterate is misclassified.
    """

    values: list[Tensor] = field(default_factory=list)
    wrong: list[Tensor] = field(default_factory=list)

    def __call__(self, logits: Tensor, y: Tensor, clean: Tensor) -> Tensor:
        del clean
        loss = log_odds(logits, y)
        self.values.append(loss.detach())
        self.wrong.append(logits.detach().argmax(1) != y)
        return loss


@dataclass(frozen=True, eq=False)
class Trajectories:
    """What happened to N examples along the steps of PGD.

    Attributes:
        values: (steps, N) the losses of the iterates, without that of the last one.
        earlier: (N,) whether an iterate before the last one was misclassified.
        last: (N,) whether the last iterate is misclassified.
        forwards, backwards: the passes of all examples.
    """

    values: Tensor
    earlier: Tensor
    last: Tensor
    forwards: int
    backwards: int

    def late_gain(self, tail: float = 0.1) -> Tensor:
        """Return (N,) how much the largest loss so far, scaled to [0, 1] over the run, grew in the last steps."""
        best = self.values.cummax(0).values
        lowest = self.values.amin(0)
        before = best[len(best) - 1 - max(1, round(tail * len(best)))]
        return (best[-1] - before) / (best[-1] - lowest).clamp(min=torch.finfo(best.dtype).tiny)


def follow_pgd(
    model: nn.Module, x: Tensor, y: Tensor, keys: Tensor | None, attack: PGD, *, fuse: bool = True
) -> Trajectories:
    """Run all steps of an attack on every example, whether or not it is broken on the way.

    The attack increases cross-entropy, whatever its loss.
    """
    recorded = RecordedLoss()
    whole = PGD(
        attack.eps, attack.steps, attack.step_size, recorded, attack.norm, attack.random_start,
        success="last", seed=attack.seed,
    )  # fmt: skip
    result = run_attack(whole, model, x, y, keys, fuse=fuse)
    earlier = torch.stack(recorded.wrong).any(0)
    forwards, backwards = int(result.forwards.sum()), int(result.backwards.sum())
    return Trajectories(torch.stack(recorded.values), earlier, result.success, forwards, backwards)
