"""The fields of every attack with their defaults and checks. No torch.

The attack classes in `ctrobust.attacks` inherit these fields and describe them. An attack can therefore be planned, and
its text made canonical, before torch is loaded.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from ctrobust.argument_checks import check_choice, check_count, check_eps, check_share
from ctrobust.errors import InputError
from ctrobust.specs.attack_loss_text import LossField, check_loss

Norm = Literal["linf", "l2"]
NORMS: tuple[Norm, ...] = ("linf", "l2")

Success = Literal["any", "last"]
"""`any`: the first iterate that fools the model ends an example's attack; `last`: only the final iterate counts."""

Form = Literal["box", "tanh", "pgd"]

Version = Literal["standard", "plus", "rand"]

CW_STEPS: dict[Norm, dict[Form, int]] = {
    "linf": {"box": 10, "tanh": 10, "pgd": 20},
    "l2": {"tanh": 100, "pgd": 20},
}
"""Norm -> its forms, the default first -> default number of steps, of a round or of a search for form "tanh"."""


@dataclass(frozen=True)
class FGSMFields:
    revision: ClassVar[int] = 0

    eps: float
    loss: LossField = "ce"
    norm: Norm = "linf"
    targeted: bool = False
    success: Success = "any"
    seed: int = 0

    def __post_init__(self) -> None:
        _check_ball(self.eps, self.norm)
        check_choice(self.success, "success", ("any", "last"))
        object.__setattr__(self, "loss", check_loss(self.loss, targeted=self.targeted))


@dataclass(frozen=True)
class PGDFields:
    revision: ClassVar[int] = 0

    eps: float
    steps: int = 20
    step_size: float | None = None
    loss: LossField = "ce"
    norm: Norm = "linf"
    random_start: bool = True
    restarts: int = 1
    eot: int = 1
    targeted: bool = False
    success: Success = "any"
    seed: int = 0

    def __post_init__(self) -> None:
        _check_ball(self.eps, self.norm)
        for name in ("steps", "restarts", "eot"):
            check_count(getattr(self, name), name)
        if self.step_size is not None:
            check_eps(self.step_size, self.norm, "step_size")
        check_choice(self.success, "success", ("any", "last"))
        object.__setattr__(self, "loss", check_loss(self.loss, targeted=self.targeted))


@dataclass(frozen=True)
class MIFGSMFields:
    revision: ClassVar[int] = 0

    eps: float
    steps: int = 10
    step_size: float | None = None
    momentum: float = 1.0
    loss: LossField = "ce"
    norm: Norm = "linf"
    eot: int = 1
    targeted: bool = False
    success: Success = "any"
    seed: int = 0

    def __post_init__(self) -> None:
        _check_ball(self.eps, self.norm)
        for name in ("steps", "eot"):
            check_count(getattr(self, name), name)
        if self.step_size is not None:
            check_eps(self.step_size, self.norm, "step_size")
        check_share(self.momentum, "momentum")
        check_choice(self.success, "success", ("any", "last"))
        object.__setattr__(self, "loss", check_loss(self.loss, targeted=self.targeted))


@dataclass(frozen=True)
class APGDFields:
    revision: ClassVar[int] = 0

    eps: float
    steps: int = 100
    loss: LossField = "ce"
    norm: Norm = "linf"
    rho: float = 0.75
    restarts: int = 1
    eot: int = 1
    targets: int = 0
    targeted: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        _check_ball(self.eps, self.norm)
        for name in ("steps", "restarts", "eot"):
            check_count(getattr(self, name), name)
        check_share(self.rho, "rho")
        check_count(self.targets, "targets", least=0)
        if self.targets and self.targeted:
            raise InputError(
                f"targets={self.targets} selects wrong classes and needs targeted=false, got targeted=true"
            )
        object.__setattr__(self, "loss", check_loss(self.loss, targeted=self.targeted, toward_target=self.targets > 0))


@dataclass(frozen=True)
class CWFields:
    """The form and the number of steps are resolved when an attack is made, and so are part of every text."""

    revision: ClassVar[int] = 0

    eps: float
    norm: Norm = "linf"
    form: Form = None  # type: ignore[assignment]  # resolved in __post_init__
    steps: int = None  # type: ignore[assignment]  # resolved in __post_init__
    lr: float = 0.01
    confidence: float = 0.0
    searches: int = 9
    targeted: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        _check_ball(self.eps, self.norm)
        forms = CW_STEPS[self.norm]
        if self.form is None:
            object.__setattr__(self, "form", next(iter(forms)))
        check_choice(self.form, f"form of norm {self.norm}", tuple(forms))
        if self.steps is None:
            object.__setattr__(self, "steps", forms[self.form])
        for name in ("steps", "searches"):
            check_count(getattr(self, name), name)
        if not 0.0 < self.lr <= 1.0:
            raise InputError(f"lr is more than 0 and at most 1, got {self.lr}")
        if not 0.0 <= self.confidence < math.inf:
            raise InputError(f"confidence is finite and at least 0, got {self.confidence}")


@dataclass(frozen=True)
class FABFields:
    revision: ClassVar[int] = 0

    eps: float
    steps: int = 100
    norm: Norm = "linf"
    targets: int = 0
    restarts: int = 1
    alpha_max: float = 0.1
    overshoot: float = 1.05
    beta: float = 0.9
    seed: int = 0

    def __post_init__(self) -> None:
        _check_ball(self.eps, self.norm)
        for name in ("steps", "restarts"):
            check_count(getattr(self, name), name)
        check_count(self.targets, "targets", least=0)
        for name in ("alpha_max", "beta"):
            check_share(getattr(self, name), name)
        if not 1.0 <= self.overshoot < math.inf:
            raise InputError(f"overshoot is finite and at least 1, got {self.overshoot}")


@dataclass(frozen=True)
class SquareFields:
    revision: ClassVar[int] = 0

    eps: float
    queries: int = 5000
    norm: Norm = "linf"
    p: float = 0.8
    rescale: bool = False
    restarts: int = 1
    targeted: bool = False
    loss: LossField = "margin"
    seed: int = 0

    def __post_init__(self) -> None:
        _check_ball(self.eps, self.norm)
        for name in ("queries", "restarts"):
            check_count(getattr(self, name), name)
        check_share(self.p, "p")
        object.__setattr__(self, "loss", check_loss(self.loss, targeted=self.targeted))


@dataclass(frozen=True)
class NoiseFields:
    revision: ClassVar[int] = 0

    eps: float
    draws: int = 1000
    norm: Norm = "linf"
    seed: int = 0

    def __post_init__(self) -> None:
        _check_ball(self.eps, self.norm)
        check_count(self.draws, "draws")


@dataclass(frozen=True)
class AutoAttackFields:
    revision: ClassVar[int] = 0

    eps: float
    norm: Norm = "linf"
    version: Version = "standard"
    queries: int = 5000
    seed: int = 0

    def __post_init__(self) -> None:
        _check_ball(self.eps, self.norm)
        check_choice(self.version, "version", ("standard", "plus", "rand"))
        check_count(self.queries, "queries")


@dataclass(frozen=True)
class StrongFields:
    revision: ClassVar[int] = 0

    eps: float
    norm: Norm = "linf"
    queries: int = 5000
    seed: int = 0

    def __post_init__(self) -> None:
        _check_ball(self.eps, self.norm)
        check_count(self.queries, "queries")


AttackFields = (
    FGSMFields | PGDFields | MIFGSMFields | APGDFields | CWFields | FABFields | SquareFields | NoiseFields
    | AutoAttackFields | StrongFields
)  # fmt: skip


def _check_ball(eps: float, norm: str) -> None:
    check_choice(norm, "norm", NORMS)
    check_eps(eps, norm)
