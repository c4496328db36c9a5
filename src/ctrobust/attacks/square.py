"""The Square attack: random search by squares, with forward passes only."""

import bisect
import functools
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ctrobust import draws
from ctrobust.attacks.attack_losses import AttackLoss, Loss, least_classes, resolve_loss
from ctrobust.attacks.attack_state import AttackState
from ctrobust.attacks.attack_text import format_attack
from ctrobust.attacks.field_checks import check_choice, check_count, check_eps, check_loss, check_share
from ctrobust.attacks.projections import NORMS, Norm
from ctrobust.attacks.result import AttackResult
from ctrobust.attacks.square_moves import MOVES
from ctrobust.attacks.stages import Stage, run_attack
from ctrobust.errors import InputError

HALVED_AFTER = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)
"""The squares' area is halved after each of these queries."""

SCHEDULED = 10_000
"""The number of queries for which that schedule was made."""

AHEAD = 64
"""Draws are made for so many queries at once, and the state is kept as often."""


@dataclass(frozen=True)
class Square:
    """From vertical stripes, squares of random signs at random places are kept where they raise the loss.

    x_new = clip(x_adv + (+-2 eps per channel, in a square));  x_adv <- x_new where L(f(x_new), y) > L(f(x_adv), y)

    In l2 (Andriushchenko et al. 2020) the start is a grid of bumps, and a query moves the offset of two windows into
    the first of them. The first image that fools ends an example's attack; who is never fooled is given back at the
    image of the highest loss. Passes for who stands: the clean one, the start, and one for each query.

    Attributes:
        eps: radius of the ball.
        queries: squares that are tried after the start.
        norm: "linf" or "l2".
        p: share of the image that the first squares cover.
        rescale: whether the schedule of their size, made for 10,000 queries, is scaled to `queries`.
        restarts: with other draws, on those who still stand.
        targeted: y are the classes to reach; for losses ce and margin.
        loss: what must rise, as for PGD.
        seed: of all draws.

    Example:
        >>> print(Square(eps=8 / 255, queries=1000))
        square:eps=8/255,queries=1000
        >>> Square(eps=8 / 255).side(0, 32, 32), Square(eps=8 / 255).side(4999, 32, 32)
        (29, 3)
    """

    eps: float
    queries: int = 5000
    norm: Norm = "linf"
    p: float = 0.8
    rescale: bool = False
    restarts: int = 1
    targeted: bool = False
    loss: str | Loss = "margin"
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice(self.norm, "norm", NORMS)
        check_eps(self.eps, self.norm)
        for name in ("queries", "restarts"):
            check_count(getattr(self, name), name)
        check_share(self.p, "p")
        object.__setattr__(self, "loss", check_loss(self.loss, targeted=self.targeted))

    def __str__(self) -> str:
        return format_attack(self, "square")

    @property
    def steps(self) -> int:
        """The queries."""
        return self.queries

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, keys: Tensor | None = None) -> Tensor:
        """The attacked images, (N, C, H, W)."""
        return run_attack(self, model, x, y, keys, verify_last=self.restarts > 1).x_adv

    def run(
        self, model: nn.Module, x: Tensor, y: Tensor, keys: Tensor | None = None, clean_logits: Tensor | None = None
    ) -> AttackResult:
        """The attacked images with outcomes and counts."""
        return run_attack(self, model, x, y, keys, clean_logits)

    def stages(self) -> tuple[Stage, ...]:
        """One for each restart."""
        return tuple(Stage(self, restart) for restart in range(self.restarts))

    def least_classes(self) -> int:
        """Those that the loss needs."""
        return least_classes(self.loss)

    def share(self, query: int) -> float:
        """What part of the image the square of a query, from 0, covers."""
        scheduled = query * SCHEDULED // self.queries if self.rescale else query
        return math.ldexp(self.p, -bisect.bisect_left(HALVED_AFTER, scheduled))

    def side(self, query: int, height: int, width: int) -> int:
        """Of the square of a query, from 0, in pixels."""
        side = max(round(math.sqrt(self.share(query) * height * width)), MOVES[self.norm].least)
        return min(side, height, width)

    def run_stage(self, state: AttackState, stage: Stage) -> None:
        """All queries from one start."""
        if state.x.dim() != 4:
            raise InputError(f"Square needs images of shape (N, C, H, W), got {tuple(state.x.shape)}")
        state.drop_misclassified()
        stream, moves = draws.stream(self.seed, "square", stage.restart), MOVES[self.norm]
        kept = _take_up(state, stream)
        index = state.active()
        if not len(index):
            return
        ascended, frame = resolve_loss(self.loss), moves.frame(state.x[index], self.eps)
        if kept is None:
            begin, adv = 0, moves.start(frame, state.keys[index], draws.stream(stream, "start"), self.eps)
            search = _Search(stream, ascended, index, frame, adv, state.x.new_full((len(index),), -torch.inf))
            self._try(state, search, adv)
        else:
            begin, adv = int(kept["query"]), state.found[index]
            search = _Search(stream, ascended, index, frame, adv, kept["value"][index])

        while begin < self.queries and len(search.index):
            end = min(begin + AHEAD, self.queries)
            self._try_many(state, search, begin, end)
            state.resume_state.write(functools.partial(_page, state, search, end))
            state.resume_state.report_progress(end / self.queries)
            begin = end
        state.record(search.index, search.adv, fooled=False)

    def _try_many(self, state: AttackState, search: "_Search", begin: int, end: int) -> None:
        """Queries whose draws are made together."""
        moves, shape = MOVES[self.norm], state.x.shape[1:]
        sides = [self.side(query, *shape[1:]) for query in range(begin, end)]
        search.plan = moves.plan(state.keys[search.index], draws.stream(search.stream, begin), sides, shape)
        for k, side in enumerate(sides):
            if not len(search.index):
                return
            move = [drawn[k] for drawn in search.plan]
            self._try(state, search, moves.candidate(search.frame, search.adv, move, side, self.eps))

    def _try(self, state: AttackState, search: "_Search", candidate: Tensor) -> None:
        """One query: who is fooled leaves, of the others those who rose move on."""
        logits = state.forward(candidate, search.index)
        lost = state.wrong(logits, search.index)
        if lost.any():
            state.record(search.index[lost], candidate[lost], fooled=True)
            active = ~lost
            search.keep(active)
            candidate, logits = candidate[active], logits[active]
            if not len(candidate):
                return
        clean = state.clean[search.index] if search.ascended.needs_clean else logits
        value = search.ascended.value(logits, state.y[search.index], clean, None)
        search.rise(candidate, -value if self.targeted else value)


@dataclass
class _Search:
    """How far the search has come.

    Attributes:
        stream: of its draws.
        ascended: the loss.
        index: positions (n,) in the batch.
        frame: what the moves need to know of the images.
        adv: (n, C, H, W) the best images so far.
        value: (n,) their losses.
        plan: the draws for the next queries, (queries, n, ...).
    """

    stream: int
    ascended: AttackLoss
    index: Tensor
    frame: tuple[Tensor, ...]
    adv: Tensor
    value: Tensor
    plan: tuple[Tensor, ...] = ()

    def keep(self, active: Tensor) -> None:
        """Drop the others."""
        self.index, self.adv, self.value = self.index[active], self.adv[active], self.value[active]
        self.frame = tuple(tensor[active] for tensor in self.frame)
        self.plan = tuple(drawn[:, active] for drawn in self.plan)

    def rise(self, candidate: Tensor, value: Tensor) -> None:
        """Move where the loss is higher."""
        higher = value > self.value
        self.value = torch.where(higher, value, self.value)
        self.adv = torch.where(higher.view(-1, 1, 1, 1), candidate, self.adv)


def _page(state: AttackState, search: _Search, query: int) -> dict[str, Tensor]:
    """All that is needed to go on at this query."""
    state.record(search.index, search.adv, fooled=False)
    value = search.value.new_zeros(len(state.x)).index_copy(0, search.index, search.value)
    counts = {"forwards": state.forwards.clone(), "backwards": state.backwards.clone()}
    numbers = {"stream": torch.tensor(search.stream), "query": torch.tensor(query)}
    return {"found": state.found.clone(), "fooled": state.fooled.clone(), "value": value, **counts, **numbers}


def _take_up(state: AttackState, stream: int) -> dict[str, Tensor] | None:
    """What the notebook says of this search, put back into the victim; None where nothing is written of it."""
    page = state.resume_state.read()
    if page is None or int(page["stream"]) != stream:
        return None
    page = {name: tensor.to(state.x.device) for name, tensor in page.items()}
    for name in ("found", "fooled", "forwards", "backwards"):
        getattr(state, name).copy_(page[name])
    return page
