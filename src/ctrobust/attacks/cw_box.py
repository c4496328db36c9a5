"""Carlini and Wagner's attack in tanh space mapped onto the l-infinity ball: ART's CarliniLInfMethod up to 1.8.1."""

import dataclasses
from dataclasses import dataclass

import torch
from torch import Tensor

from ctrobust.attacks.attack_losses import resolve_loss
from ctrobust.attacks.attack_state import AttackState
from ctrobust.attacks.projections import linf_bounds
from ctrobust.attacks.tanh_descent import TANH_SCALE

MAX_HALVINGS = 5
MAX_DOUBLINGS = 5


@dataclass
class LineSearch:
    """Gradient descent with a line search over w, where x_adv = low + (high - low) (tanh w + 1) / 2.

    Every field has one row per active example.

    Attributes:
        index: positions in the batch, (n,).
        low, high: the corners of the eps-ball cut by [0, 1], (n, ...).
        adv, w: the current iterate as an image and in tanh space, (n, ...).
        direction: the negative gradient of the loss with respect to w, (n, ...).
        lr: the learning rate that is tried next, (n,).
        loss: the loss max(0, confidence - margin) of the last image that was classified, (n,).
        previous_loss: `loss` before the current line search, (n,).
        best_loss, best_lr: the lowest loss of the current line search and its learning rate, 0 if no loss was lower.
        halvings: number of learning rates tried while halving in the current line search, (n,) int64.
    """

    index: Tensor
    low: Tensor
    high: Tensor
    adv: Tensor
    w: Tensor
    direction: Tensor
    lr: Tensor
    loss: Tensor
    previous_loss: Tensor
    best_loss: Tensor
    best_lr: Tensor
    halvings: Tensor

    @classmethod
    def begin(cls, index: Tensor, x: Tensor, eps: float, lr: float) -> "LineSearch":
        """Start at the clean images x (n, ...); their loss is not known yet."""
        low, high = linf_bounds(x, eps)
        width = (high - low).clamp_(min=torch.finfo(x.dtype).tiny)
        w = ((x - low) / width).mul_(2).sub_(1).clamp_(-1.0, 1.0).mul_(TANH_SCALE).atanh_()
        unknown = x.new_full((len(x),), torch.inf)
        none, rate = torch.zeros_like(index), x.new_full((len(x),), lr)
        return cls(index, low, high, x, w, x, rate, unknown, unknown, unknown, 0 * rate, none)

    def select(self, active: Tensor) -> None:
        """Keep only the active examples; `active` is a mask (n,)."""
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name)[active])

    def start_line(self, margin_gradient: Tensor) -> None:
        """Begin a line search, given the gradient (n, ...) of the margin with respect to the images at `adv`."""
        slope = self.w.tanh().square_().neg_().add_(1).div_(2)
        self.direction = margin_gradient.mul_(self.high - self.low).mul_(slope)
        self.previous_loss = self.best_loss = self.loss
        self.best_lr, self.halvings = torch.zeros_like(self.lr), torch.zeros_like(self.halvings)

    def candidate(self, lr: Tensor, mask: Tensor) -> Tensor:
        """Return the images of w + lr direction for the examples of the mask."""
        w = self.w[mask] + self._rows(lr[mask]) * self.direction[mask]
        low, high = self.low[mask], self.high[mask]
        # Clamped because rounding may put the image just outside the ball.
        return w.tanh_().add_(1).div_(2).mul_(high - low).add_(low).clamp_(low, high)

    def update_best(self, mask: Tensor, loss: Tensor) -> Tensor:
        """Record the losses of candidates with the current learning rate; return which of them improve the best."""
        self.loss = self.loss.masked_scatter(mask, loss)
        improved = self.loss < self.best_loss
        self.best_lr = torch.where(improved, self.lr, self.best_lr)
        self.best_loss = torch.where(improved, self.loss, self.best_loss)
        return improved[mask]

    def accept(self) -> None:
        """Take the step with the best learning rate, where one decreased the loss.

        As in ART, an example without such a step keeps the loss of its last candidate: the next line search, along the
        same direction, accepts any smaller loss.
        """
        moved = self.best_lr > 0
        self.adv = self.adv.masked_scatter(self._rows(moved), self.candidate(self.best_lr, moved))
        self.w = self.w + self._rows(self.best_lr) * self.direction
        self.loss = torch.where(moved, self.best_loss, self.loss)

    def _rows(self, values: Tensor) -> Tensor:
        return values.view(-1, *[1] * (self.w.dim() - 1))


def run_line_search(state: AttackState, *, eps: float, steps: int, lr: float, confidence: float) -> None:
    """Descend max(0, confidence - margin) from the clean images of the active examples.

    Each step halves the learning rate until the loss decreases, at most 5 times; if the first one decreases it, the
    rate is doubled as long as the loss does not increase, at most 5 times. The best rate is taken, and the next step
    starts from the last successful one. An example's attack ends when the margin reaches the confidence.
    """
    index, margin_loss = state.active(), resolve_loss("margin")
    search = LineSearch.begin(index, state.x[index], eps, lr)
    for step in range(steps):
        if not len(search.index):
            return
        gradient, margin, _ = state.gradient(search.adv, search.index, margin_loss)
        if step == 0:
            search.loss = (confidence - margin).clamp_(min=0.0)
        search.start_line(gradient)
        for _ in range(MAX_HALVINGS):
            retry = search.loss >= search.previous_loss
            if not retry.any():
                break
            _classify(state, search, retry, confidence)
            search.lr = torch.where(retry, search.lr / 2, search.lr)
            search.halvings = search.halvings + retry
        search.lr = search.lr * 2
        for _ in range(MAX_DOUBLINGS):
            grow = (search.halvings == 1) & (search.loss <= search.best_loss) & (search.best_loss > 0)
            if not grow.any():
                break
            search.lr = torch.where(grow, search.lr * 2, search.lr)
            _classify(state, search, grow, confidence)
        search.lr = torch.where(search.halvings == 1, search.lr / 2, search.lr)
        search.accept()
        state.record(*_not_fooled(state, search), fooled=False)
        search.select(search.best_loss > 0)
        state.resume_state.report_progress((step + 1) / steps)


def _classify(state: AttackState, search: LineSearch, mask: Tensor, confidence: float) -> None:
    """Classify the candidates of the examples of the mask, and record those misclassified with the highest margin."""
    index, candidate = search.index[mask], search.candidate(search.lr, mask)
    logits = state.forward(candidate, index)
    margin = resolve_loss("margin").value(logits, state.y[index], logits, None)
    margin = -margin if state.targeted else margin
    improved = search.update_best(mask, (confidence - margin).clamp_(min=0.0))
    broken = improved & state.wrong(logits, index)
    if broken.any():
        state.record(index[broken], candidate[broken], fooled=True)


def _not_fooled(state: AttackState, search: LineSearch) -> tuple[Tensor, Tensor]:
    """Return the positions and iterates of the examples that no candidate has fooled."""
    robust = ~state.fooled[search.index]
    return search.index[robust], search.adv[robust]
