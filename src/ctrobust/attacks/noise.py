"""Uniform noise in the ball, with forward passes only: a sanity check that every gradient attack must beat."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from ctrobust import losses
from ctrobust.attacks.attack_state import AttackState
from ctrobust.attacks.base import Attack
from ctrobust.attacks.projections import project
from ctrobust.attacks.random_starts import ball_start
from ctrobust.attacks.stages import Stage
from ctrobust.draws import stream
from ctrobust.specs.attack_fields import NoiseFields


@dataclass(frozen=True)
class Noise(NoiseFields, Attack):
    """Independent draws x_k = clip(x + u_k, 0, 1), u_k uniform in the ball.

    An example's attack ends at its first misclassified draw; an example that is never misclassified gets the draw of
    the largest margin max_{j != y} z_j - z_y. A robust example costs 1 + draws forward passes: the clean image and the
    draws.

    Attributes:
        eps: radius of the ball.
        draws: number of draws.
        norm: "linf" or "l2".
        seed: seed of the draws.

    Example:
        >>> print(Noise(eps=8 / 255, draws=100))
        noise:eps=8/255,draws=100
    """

    step_cost: ClassVar[float] = 1.0

    @property
    def steps(self) -> int:  # type: ignore[override]
        return self.draws

    def run_stage(self, state: AttackState, stage: Stage) -> None:  # noqa: ARG002 - the only stage
        state.drop_misclassified()
        index = state.active()
        x = best = state.x[index]
        best_margin = x.new_full((len(index),), -torch.inf)
        for number in range(self.draws):
            if not len(index):
                return
            start = ball_start(x, state.keys[index], stream(self.seed, "noise", number), self.eps, self.norm)
            drawn = project(start, x, self.eps, self.norm)
            logits = state.forward(drawn, index)
            broken = state.wrong(logits, index)
            margin = losses.margin(logits, state.y[index])
            larger = margin > best_margin
            best_margin = torch.where(larger, margin, best_margin)
            best = torch.where(larger.view(-1, *[1] * (x.dim() - 1)), drawn, best)
            if broken.any():
                state.record(index[broken], drawn[broken], fooled=True)
                index, x, best, best_margin = (tensor[~broken] for tensor in (index, x, best, best_margin))
            state.resume_state.report_progress((number + 1) / self.draws)
        state.record(index, best, fooled=False)
