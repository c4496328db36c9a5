"""The attack inside an adversarial recipe: random starts, signed steps within ball and box, and what recipes share."""

import contextlib
from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from ctrobust import draws
from ctrobust.argument_checks import check_count
from ctrobust.model_outputs import as_logits
from ctrobust.recipes.interface import AttackableModel
from ctrobust.recipes.recipe_losses import check_attack, warn_of_softmax


class StartStream:
    """Random starts keyed by (seed, number of batches so far, example's key), so that each batch has new ones.

    A key occurs once in a batch, so an example's start does not depend on which process holds the example.
    """

    def __init__(self, seed: int) -> None:
        self.seed, self.batch = seed, 0

    def uniform(self, x: Tensor, keys: Tensor, eps: float) -> Tensor:
        """Uniform starts x + U(-eps, eps), clipped to [0, 1]."""
        noise = draws.uniform(keys, self._next_stream(), tuple(x.shape[1:])).to(x)
        return (x + (noise * (2 * eps) - eps)).clamp_(0.0, 1.0)

    def normal(self, x: Tensor, keys: Tensor, scale: float) -> Tensor:
        """Normal starts x + scale N(0, 1), not clipped: TRADES clips to [0, 1] only after the first step."""
        return x + scale * draws.normal(keys, self._next_stream(), tuple(x.shape[1:])).to(x)

    def _next_stream(self) -> int:
        self.batch += 1
        return draws.stream(self.seed, "start", self.batch - 1)

    def state_dict(self) -> dict[str, Tensor]:
        return {"batch": torch.tensor(self.batch)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.batch = int(state["batch"])


class SignedStepRecipe:
    """What recipes share whose attack takes signed steps from a random start: settings, starts and their state."""

    one_step_size: float | None = None

    def __init__(
        self,
        eps: float,
        steps: int,
        step_size: float | None,
        *,
        default_ratio: float,
        seed: int,
        attack_model: AttackableModel | None,
    ) -> None:
        """Check and store the settings; `step_size` None is `default_ratio` times eps."""
        check_attack(eps, step_size)
        check_count(steps, "steps")
        self.eps, self.steps = eps, steps
        self.step_size = default_ratio * eps if step_size is None else step_size
        self.starts, self.attack_model = StartStream(seed), attack_model

    @contextlib.contextmanager
    def attacking(self, model: AttackableModel, *, eval_mode: bool = False) -> Iterator[AttackableModel]:
        """Yield the network that the attack calls, in `attack_mode`."""
        attacked = model if self.attack_model is None else self.attack_model
        with attack_mode(attacked, eval_mode=eval_mode):
            yield attacked

    def perturb(
        self, attacked: AttackableModel, x: Tensor, start: Tensor, objective: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """Take the recipe's signed steps from `start` up the objective of the logits."""
        return take_signed_steps(
            attacked, x, start, objective, eps=self.eps, step_size=self.step_size, steps=self.steps
        )  # fmt: skip

    def end_epoch(self) -> None:
        """Do nothing: the number of batches goes on across epochs."""

    def state_dict(self) -> dict[str, Tensor]:
        return self.starts.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.starts.load_state_dict(state)


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
    """Take signed steps up the objective of the logits; only the input's gradient is computed."""
    adv = start
    for step in range(steps):
        iterate = adv.detach().requires_grad_()
        logits = as_logits(model(iterate))
        if step == 0:
            warn_of_softmax(logits)
        (gradient,) = torch.autograd.grad(objective(logits).sum(), iterate)
        adv = signed_step(x, adv, gradient, eps, step_size)
    return adv


@contextlib.contextmanager
def attack_mode(model: AttackableModel, *, eval_mode: bool = False) -> Iterator[None]:
    """Let no parameter require a gradient and, if `eval_mode`, put every module in eval mode; restore both at the end.

    Gradients are enabled inside, also under `torch.no_grad()`.
    """
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    modes = [(module, module.training) for module in model.modules()] if eval_mode else []
    try:
        for parameter in trained:
            parameter.requires_grad_(False)
        for module, _ in modes:
            module.training = False
        with torch.enable_grad():
            yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)
        for module, mode in modes:
            module.training = mode
