"""Projected gradient descent, and with loss="std" the paper's S-PGD."""

from dataclasses import dataclass

from torch import Tensor, nn

from ctrobust import draws
from ctrobust.attacks.ascent import Success, ascend
from ctrobust.attacks.checks import check_choice, check_count, check_loss, check_radius
from ctrobust.attacks.grammar import format_attack
from ctrobust.attacks.objectives import Loss, objective
from ctrobust.attacks.projections import linf_bounds
from ctrobust.attacks.randomness import beside, linf_start
from ctrobust.attacks.result import AttackResult


@dataclass(frozen=True)
class PGD:
    """Signed gradient steps from a uniform start, projected on the ball and then the box after each.

    x <- clip(x + clip(x_adv + step_size sign grad L(f(x_adv), y) - x, -eps, eps), 0, 1)

    Attributes:
        eps: radius of the l-infinity ball.
        steps: how many.
        step_size: of each; None is eps / 4.
        loss: "ce", "sce(gamma=5)", "kl", "skl(gamma=1,std_at=adv)", "std", "dlr", "margin", or in Python a callable
            (logits, y, clean_logits) -> (N,).
        random_start: uniform in the ball; False starts at the image, which is BIM.
        success: "any" stops an example at the first image that fools, for evaluation; "last" makes all steps, for
            adversarial training and for tables made with torchattacks.
        seed: of the random start.

    Example:
        >>> print(PGD(eps=8 / 255, steps=20, step_size=2 / 255, loss="std"))
        pgd:eps=8/255,step_size=2/255,loss=std
    """

    eps: float
    steps: int = 20
    step_size: float | None = None
    loss: str | Loss = "ce"
    random_start: bool = True
    success: Success = "any"
    seed: int = 0

    def __post_init__(self) -> None:
        check_radius(self.eps)
        check_count(self.steps, "steps")
        if self.step_size is not None:
            check_radius(self.step_size, "step_size")
        check_choice(self.success, "success", ("any", "last"))
        object.__setattr__(self, "loss", check_loss(self.loss))

    def __str__(self) -> str:
        return format_attack(self, "pgd")

    def __call__(self, model: nn.Module, x: Tensor, y: Tensor, keys: Tensor | None = None) -> Tensor:
        """The attacked images, (N, ...)."""
        return self._attack(model, x, y, keys, None, judge=False).x_adv

    def run(
        self, model: nn.Module, x: Tensor, y: Tensor, keys: Tensor | None = None, clean_logits: Tensor | None = None
    ) -> AttackResult:
        """The attacked images with outcomes and counts."""
        return self._attack(model, x, y, keys, clean_logits, judge=True)

    def _attack(
        self, model: nn.Module, x: Tensor, y: Tensor, keys: Tensor | None, clean_logits: Tensor | None, *, judge: bool
    ) -> AttackResult:
        size = self.eps / 4 if self.step_size is None else self.step_size
        stream, ascended = draws.stream(self.seed, "pgd"), objective(self.loss)

        def start(x: Tensor, keys: Tensor) -> Tensor:
            if not self.random_start:
                return beside(x, keys, stream, self.eps)
            return linf_start(x, keys, stream, self.eps).clamp_(0.0, 1.0)

        def step(x: Tensor, adv: Tensor, gradient: Tensor) -> Tensor:
            low, high = linf_bounds(x, self.eps)
            return adv.add(gradient.sign_(), alpha=size).clamp_(low, high)

        return ascend(
            model, x, y, keys, clean_logits,
            start=start if self.random_start or ascended.flat_at_clean else None, step=step, steps=self.steps,
            objective=ascended, success=self.success, judge=judge,
        )  # fmt: skip
