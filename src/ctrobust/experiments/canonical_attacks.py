"""Attacks of the paper as canonical texts, which jobs are planned with; made without torch.

A preset named `smoke` gets fewer steps and queries.
"""

from ctrobust.experiments.presets import Preset

MNIST_STEPS = {
    "0.05": "1/600", "0.1": "1/300", "0.15": "0.005", "0.2": "1/150",
    "0.25": "1/120", "0.3": "0.01", "0.35": "7/600", "0.4": "1/75",
}  # fmt: skip
"""eps -> eps / 30, the step size of PGD-40 on MNIST."""

STRENGTHS = {
    "mnist": tuple(MNIST_STEPS),
    "fashion-mnist": tuple(f"{n}/255" for n in (2, 4, 6, 8, 10, 12, 14, 16, 24)),
    "cifar10": tuple(f"{n}/255" for n in (1, 2, 3, 4, 5, 6, 7, 8, 12, 16)),
    "cifar100": tuple(f"{n}/255" for n in (1, 2, 3, 4, 5, 6, 7, 8, 12, 16)),
}
"""Data set -> the values of eps in the curves of naturally trained networks."""

SMOKE_STRENGTHS = {
    "mnist": ("0.1", "0.3"),
    "fashion-mnist": ("4/255", "16/255"),
    "cifar10": ("2/255", "8/255"),
    "cifar100": ("2/255", "8/255"),
}


def strengths(preset: Preset, data: str) -> tuple[str, ...]:
    return (SMOKE_STRENGTHS if preset.digits else STRENGTHS)[data]


def sce_loss(gamma: int) -> str:
    """The text of the loss SCE; gamma 0 is CE, and 2 is the default, which canonical texts leave out.

    Example:
        >>> [sce_loss(gamma) for gamma in (0, 2, 5)]
        ['ce', 'sce', 'sce(gamma=5)']
    """
    return {0: "ce", 2: "sce"}.get(gamma, f"sce(gamma={gamma})")


def attack_text(preset: Preset, attack: str, eps: str, *, loss: str = "ce", data: str = "", step: str = "") -> str:
    """The canonical text of an attack, by the paper's name; `step` is for PGD, whose step is eps / 4 without it.

    PGD has 40 steps of eps / 30 on MNIST. CW-inf is read as ART's attack with a line search inside the ball.

    Example:
        >>> from ctrobust.experiments.presets import PRESETS
        >>> attack_text(PRESETS["paper"], "PGD", "0.1", data="mnist")
        'pgd:eps=0.1,steps=40,step_size=1/300'
    """
    short = preset.digits
    match attack:
        case "FGSM":
            fields = []
        case "PGD" | "PGD-SCE":
            loss = sce_loss(5) if attack == "PGD-SCE" else loss
            fields = ["steps=3"] if short else ["steps=40"] if data == "mnist" else []
            if data == "mnist" and not short:
                step = MNIST_STEPS[eps]
            fields += [f"step_size={step}"] if step else []
        case "MI":
            fields = ["steps=3"] if short else []
        case "APGD":
            fields = ["steps=5"] if short else []
        case "CW":
            return cw_text(eps, 2 if short else 10)
        case "Square" | "AA":
            fields = ["queries=10"] if short else []
        case _:
            raise ValueError(f"no attack of the paper is named {attack!r}")
    loss_field = [] if loss == "ce" else [f"loss={loss}"]
    return f"{KINDS[attack]}:{','.join([f'eps={eps}', *fields, *loss_field])}"


def cw_text(eps: str, steps: int) -> str:
    """The canonical text of CW-inf as the paper's tables are read.

    Example:
        >>> cw_text("8/255", 10)
        'cw:eps=8/255,form=box,steps=10'
    """
    return f"cw:eps={eps},form=box,steps={steps}"


KINDS = {
    "FGSM": "fgsm", "PGD": "pgd", "PGD-SCE": "pgd", "MI": "mifgsm", "APGD": "apgd", "Square": "square",
    "AA": "autoattack",
}  # fmt: skip
"""The paper's name -> the first word of the text."""
