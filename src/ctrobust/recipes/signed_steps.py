"""The attack inside a recipe: fresh starts, signed steps within ball and box, and nothing left behind."""

import contextlib
from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from ctrobust import draws
from ctrobust.recipes.interface import AttackableModel
from ctrobust.recipes.recipe_losses import warn_of_softmax


class Starts:
    """Where attacks begin: draws keyed by (seed, batches seen, example's index), so fresh for each batch.

    An index occurs once in a batch, so its draw does not depend on which process holds the example.
    """

    def __init__(self, seed: int) -> None:
        self.seed, self.batch = seed, 0

    def uniform(self, x: Tensor, keys: Tensor, eps: float) -> Tensor:
        """Uniform in the ball around x, then in the box."""
        noise = draws.uniform(keys, self._stream(), tuple(x.shape[1:])).to(x)
        return (x + (noise * (2 * eps) - eps)).clamp_(0.0, 1.0)

    def normal(self, x: Tensor, keys: Tensor, scale: float) -> Tensor:
        """The start x + scale N(0, 1), as TRADES has it: in the box only after the first step."""
        return x + scale * draws.normal(keys, self._stream(), tuple(x.shape[1:])).to(x)

    def _stream(self) -> int:
        self.batch += 1
        return draws.stream(self.seed, "start", self.batch - 1)

    def state_dict(self) -> dict[str, Tensor]:
        """How many batches were begun."""
        return {"batch": torch.tensor(self.batch)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from there."""
        self.batch = int(state["batch"])


def signed_step(x: Tensor, adv: Tensor, gradient: Tensor, eps: float, step_size: float) -> Tensor:
    """clip(clip(adv + step_size sign gradient, x - eps, x + eps), 0, 1).

    Example:
        >>> x = torch.tensor([0.5, 0.5, 0.95])
        >>> signed_step(x, x, torch.tensor([2.0, -1.0, 3.0]), eps=0.1, step_size=0.2)
        tensor([0.6000, 0.4000, 1.0000])
    """
    moved = adv.add(gradient.sign(), alpha=step_size)
    return moved.clamp_(x - eps, x + eps).clamp_(0.0, 1.0)


def take_signed_steps(
    model: AttackableModel,
    x: Tensor,
    start: Tensor,
    objective: Callable[[Tensor], Tensor],
    *,
    eps: float,
    step_size: float,
    steps: int,
) -> Tensor:
    """Signed steps up the objective of the logits; the gradient is the input's alone."""
    adv = start
    for step in range(steps):
        at = adv.detach().requires_grad_()
        logits = model(at)
        if step == 0:
            warn_of_softmax(logits)
        (gradient,) = torch.autograd.grad(objective(logits).sum(), at)
        adv = signed_step(x, adv, gradient, eps, step_size)
    return adv


@contextlib.contextmanager
def under_attack(model: AttackableModel, *, evaluating: bool = False) -> Iterator[None]:
    """Parameters ask for no gradient, and with `evaluating` all is in eval mode; in the end all is as it was found."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    modes = [(part, part.training) for part in model.modules()] if evaluating else []
    try:
        for parameter in trained:
            parameter.requires_grad_(False)
        for part, _ in modes:
            part.training = False
        with torch.enable_grad():
            yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)
        for part, mode in modes:
            part.training = mode
