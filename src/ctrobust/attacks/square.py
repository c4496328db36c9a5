"""The Square attack of Andriushchenko et al.: random search by squares, with forward passes only."""

import bisect
import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ctrobust import draws
from ctrobust.attacks.attack_losses import AttackLoss, resolve_loss
from ctrobust.attacks.attack_state import AttackState
from ctrobust.attacks.base import Attack
from ctrobust.attacks.projections import distance
from ctrobust.attacks.square_moves import SQUARE_SAMPLERS
from ctrobust.attacks.stages import Stage
from ctrobust.errors import InputError
from ctrobust.specs.attack_fields import SquareFields

HALVED_AFTER = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)
"""The squares' area is halved after each of these queries."""

SCHEDULE_QUERIES = 10_000
"""The number of queries for which that schedule was made."""

CHUNK = 64
"""Number of queries whose random draws are made at once; the resume state is written after each chunk."""


@dataclass(frozen=True)
class Square(SquareFields, Attack):
    """Random search: a square of random sign at a random position is accepted where it increases the loss.

    x_new = clip(x_adv + (+-2 eps per channel, in a square));  x_adv <- x_new where L(f(x_new), y) > L(f(x_adv), y)

    The search starts at vertical stripes of +-eps. In l2 the start is a grid of bumps, and a query moves the
    perturbation of two windows into the first of them. An example's attack ends at its first misclassified image; an
    example that is never misclassified gets the image of the highest loss. A robust example costs 2 + queries forward
    passes: the clean image, the start and the queries.

    Attributes:
        eps: radius of the ball.
        queries: number of squares tried after the start.
        norm: "linf" or "l2".
        p: fraction of the image that the first squares cover.
        rescale: whether the schedule of the side length, made for 10,000 queries, is scaled to `queries`.
        restarts: number of runs with other random draws, each on the remaining examples.
        targeted: y are the classes to reach; for losses with a form toward a class but dlr.
        loss: the loss to increase, as for PGD.
        seed: seed of all random draws.

    Example:
        >>> print(Square(eps=8 / 255, queries=1000))
        square:eps=8/255,queries=1000
        >>> Square(eps=8 / 255).side_length(0, 32, 32), Square(eps=8 / 255).side_length(4999, 32, 32)
        (29, 3)
    """

    step_cost: ClassVar[float] = 1.0

    @property
    def steps(self) -> int:  # type: ignore[override]
        return self.queries

    def area_fraction(self, query: int) -> float:
        """Return the fraction of the image that the square of a query, counted from 0, covers."""
        scheduled = query * SCHEDULE_QUERIES // self.queries if self.rescale else query
        return math.ldexp(self.p, -bisect.bisect_left(HALVED_AFTER, scheduled))

    def side_length(self, query: int, height: int, width: int) -> int:
        """Return the side length in pixels of the square of a query, counted from 0."""
        side = max(round(math.sqrt(self.area_fraction(query) * height * width)), SQUARE_SAMPLERS[self.norm].min_side)
        return min(side, height, width)

    def run_stage(self, state: AttackState, stage: Stage) -> None:
        if state.x.dim() != 4:
            raise InputError(f"Square needs images of shape (N, C, H, W), got {tuple(state.x.shape)}")
        state.drop_misclassified()
        stream, sampler = draws.stream(self.seed, "square", stage.restart), SQUARE_SAMPLERS[self.norm]
        stored = _restore(self, state, stream)
        index = state.active()
        if not len(index):
            return
        attack_loss, constants = resolve_loss(self.loss), sampler.constants(state.x[index], self.eps)
        if stored is None:
            begin, adv = 0, sampler.start(constants, state.keys[index], draws.stream(stream, "start"), self.eps)
            search = _Search(stream, attack_loss, index, constants, adv, state.x.new_full((len(index),), -torch.inf))
            self._query(state, search, adv)
        else:
            begin, adv = int(stored["query"]), state.found[index]
            search = _Search(stream, attack_loss, index, constants, adv, stored["value"][index])

        while begin < self.queries and len(search.index):
            end = min(begin + CHUNK, self.queries)
            self._query_chunk(state, search, begin, end)
            state.resume_state.write(functools.partial(_snapshot, state, search, end))
            state.resume_state.report_progress(end / self.queries)
            begin = end
        state.record(search.index, search.adv, fooled=False)

    def _query_chunk(self, state: AttackState, search: "_Search", begin: int, end: int) -> None:
        """Make the queries begin..end-1, whose random draws are made together."""
        sampler, shape = SQUARE_SAMPLERS[self.norm], state.x.shape[1:]
        sides = [self.side_length(query, *shape[1:]) for query in range(begin, end)]
        search.drawn = sampler.draw(state.keys[search.index], draws.stream(search.stream, begin), sides, shape)
        for k, side in enumerate(sides):
            if not len(search.index):
                return
            drawn = [tensor[k] for tensor in search.drawn]
            self._query(state, search, sampler.candidate(search.constants, search.adv, drawn, side, self.eps))

    def _query(self, state: AttackState, search: "_Search", candidate: Tensor) -> None:
        """Classify the candidates: drop the broken examples, and accept those that increase the loss."""
        logits = state.forward(candidate, search.index)
        broken = state.wrong(logits, search.index)
        if broken.any():
            state.record(search.index[broken], candidate[broken], fooled=True)
            active = ~broken
            search.select(active)
            candidate, logits = candidate[active], logits[active]
            if not len(candidate):
                return
        clean = state.clean[search.index] if search.attack_loss.needs_clean else logits
        value = search.attack_loss.value(logits, state.y[search.index], clean, None)
        search.update_best(candidate, -value if self.targeted else value)


@dataclass
class _Search:
    """State of the random search on the active examples.

    Attributes:
        stream: stream of its random draws.
        attack_loss: the loss to increase.
        index: positions (n,) in the batch.
        constants: what the sampler needs of the clean images, each (n, ...).
        adv: (n, C, H, W) the images of the highest loss so far.
        value: (n,) their losses.
        drawn: the random draws of the current chunk, each (queries, n, ...).
    """

    stream: int
    attack_loss: AttackLoss
    index: Tensor
    constants: tuple[Tensor, ...]
    adv: Tensor
    value: Tensor
    drawn: tuple[Tensor, ...] = ()

    def select(self, active: Tensor) -> None:
        """Keep only the active examples; `active` is a mask (n,)."""
        self.index, self.adv, self.value = self.index[active], self.adv[active], self.value[active]
        self.constants = tuple(tensor[active] for tensor in self.constants)
        self.drawn = tuple(tensor[:, active] for tensor in self.drawn)

    def update_best(self, candidate: Tensor, value: Tensor) -> None:
        """Accept the candidates whose loss is higher."""
        higher = value > self.value
        self.value = torch.where(higher, value, self.value)
        self.adv = torch.where(higher.view(-1, 1, 1, 1), candidate, self.adv)


def _snapshot(state: AttackState, search: _Search, query: int) -> dict[str, Tensor]:
    """Return the tensors from which the search can be resumed at this query."""
    state.record(search.index, search.adv, fooled=False)
    value = search.value.new_zeros(len(state.x)).index_copy(0, search.index, search.value)
    counts = {"forwards": state.forwards.clone(), "backwards": state.backwards.clone()}
    numbers = {"stream": torch.tensor(search.stream), "query": torch.tensor(query)}
    return {"found": state.found.clone(), "fooled": state.fooled.clone(), "value": value, **counts, **numbers}


def _restore(attack: Square, state: AttackState, stream: int) -> dict[str, Tensor] | None:
    """Restore the attack state from a stored snapshot of this stream and return it; None if there is none that fits."""
    snapshot = state.resume_state.read()
    if snapshot is None or not _fits(attack, state, snapshot, stream):
        return None
    snapshot = {name: tensor.to(state.x.device) for name, tensor in snapshot.items()}
    for name in ("found", "fooled", "forwards", "backwards"):
        getattr(state, name).copy_(snapshot[name])
    return snapshot


def _fits(attack: Square, state: AttackState, snapshot: Mapping[str, Tensor], stream: int) -> bool:
    """Return whether a snapshot was taken of this batch in this stream: it may come from a damaged file."""
    number, rows = torch.zeros((), dtype=torch.int64), len(state.x)
    expected = {
        "found": state.found, "fooled": state.fooled, "forwards": state.forwards, "backwards": state.backwards,
        "value": state.x.new_zeros(rows), "stream": number, "query": number,
    }  # fmt: skip
    if snapshot.keys() != expected.keys():
        return False
    if any(snapshot[name].shape != one.shape or snapshot[name].dtype != one.dtype for name, one in expected.items()):
        return False
    moved = distance(snapshot["found"].to(state.x), state.x, attack.norm)
    within = bool((moved <= attack.eps * (1 + 1e-3) + 1e-6).all())  # false for NaN
    return within and int(snapshot["stream"]) == stream and int(snapshot["query"]) >= 0
