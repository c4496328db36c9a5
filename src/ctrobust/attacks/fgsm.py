"""The fast gradient sign method, and with loss="std" the paper's S-FGSM."""

from dataclasses import dataclass

from torch import Tensor, nn

from ctrobust import draws
from ctrobust.attacks.ascent import Success, ascend
from ctrobust.attacks.checks import check_choice, check_loss, check_radius
from ctrobust.attacks.grammar import format_attack
from ctrobust.attacks.objectives import Loss, objective
from ctrobust.attacks.randomness import beside
from ctrobust.attacks.result import AttackResult


@dataclass(frozen=True)
class FGSM:
    """One step of eps along the sign of the gradient: clip(x + eps sign grad L(f(x), y), 0, 1).

    KL and SKL, whose gradient at x is zero, are differentiated at x + 0.001 N(0, 1).

    Attributes:
        eps: radius of the l-infinity ball.
        loss: "ce", "sce(gamma=5)", "kl", "skl(gamma=1,std_at=adv)", "std", "dlr", "margin", or in Python a callable
            (logits, y, clean_logits) -> (N,).
        success: "any" leaves misclassified images as they are; "last" attacks them too.
        seed: of the random start.

    Example:
        >>> print(FGSM(eps=8 / 255, loss="sce(gamma=5.0)"))
        fgsm:eps=8/255,loss=sce(gamma=5)
    """

    eps: float
    loss: str | Loss = "ce"
    success: Success = "any"
    seed: int = 0

    def __post_init__(self) -> None:
        check_radius(self.eps)
        check_choice(self.success, "success", ("any", "last"))
        object.__setattr__(self, "loss", check_loss(self.loss))

    def __str__(self) -> str:
        return format_attack(self, "fgsm")

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
        ascended = objective(self.loss)
        stream = draws.stream(self.seed, "fgsm")

        def start(x: Tensor, keys: Tensor) -> Tensor:
            return beside(x, keys, stream, self.eps)

        def step(x: Tensor, _: Tensor, gradient: Tensor) -> Tensor:
            return (x + self.eps * gradient.sign()).clamp_(0.0, 1.0)

        return ascend(
            model, x, y, keys, clean_logits,
            start=start if ascended.flat_at_clean else None, step=step, steps=1,
            objective=ascended, success=self.success, judge=judge,
        )  # fmt: skip
