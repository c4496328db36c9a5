"""How users of each library run each attack: what benchmarks/attacks.py times."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ctrobust import attacks

Attacker = Callable[[nn.Module, Tensor, Tensor, float, int], Tensor]
"""(model, x, y, eps, budget) -> the images found."""

BATCH = 128


def batched(attack: Callable[[Tensor, Tensor], Tensor], x: Tensor, y: Tensor) -> Tensor:
    """The library takes a batch, and so many at a time are given to it."""
    return torch.cat([attack(*pair) for pair in zip(x.split(BATCH), y.split(BATCH), strict=True)])


def judged(attack: Attacker) -> Attacker:
    """With the pass that says who was fooled, for libraries that do not tell."""

    def then_classified(model: nn.Module, x: Tensor, y: Tensor, eps: float, budget: int) -> Tensor:
        found = attack(model, x, y, eps, budget)
        with torch.no_grad():
            batched(lambda x, _: model(x).argmax(1), found, y)
        return found

    return then_classified


def our_pgd_last(model: nn.Module, x: Tensor, y: Tensor, eps: float, steps: int) -> Tensor:
    return attacks.PGD(eps, steps=steps, success="last")(model, x, y)


def our_pgd(model: nn.Module, x: Tensor, y: Tensor, eps: float, steps: int) -> Tensor:
    return attacks.PGD(eps, steps=steps).run(model, x, y).x_adv


def our_apgd(model: nn.Module, x: Tensor, y: Tensor, eps: float, steps: int) -> Tensor:
    return attacks.APGD(eps, steps=steps).run(model, x, y).x_adv


def our_square(model: nn.Module, x: Tensor, y: Tensor, eps: float, queries: int) -> Tensor:
    return attacks.Square(eps, queries=queries).run(model, x, y).x_adv


def our_autoattack(model: nn.Module, x: Tensor, y: Tensor, eps: float, queries: int) -> Tensor:
    return attacks.AutoAttack(eps, queries=queries).run(model, x, y).x_adv


def torchattacks_pgd(model: nn.Module, x: Tensor, y: Tensor, eps: float, steps: int) -> Tensor:
    import torchattacks

    return batched(torchattacks.PGD(model, eps=eps, alpha=eps / 4, steps=steps), x, y)


def torchattacks_apgd(model: nn.Module, x: Tensor, y: Tensor, eps: float, steps: int) -> Tensor:
    import torchattacks

    return batched(torchattacks.APGD(model, eps=eps, steps=steps), x, y)


def torchattacks_square(model: nn.Module, x: Tensor, y: Tensor, eps: float, queries: int) -> Tensor:
    import torchattacks

    return batched(torchattacks.Square(model, eps=eps, n_queries=queries, resc_schedule=False), x, y)


def torchattacks_autoattack(model: nn.Module, x: Tensor, y: Tensor, eps: float, queries: int) -> Tensor:
    import torchattacks

    made = torchattacks.AutoAttack(model, eps=eps, n_classes=10)
    made._autoattack.attacks[3].n_queries = queries
    return batched(made, x, y)


def foolbox_pgd(model: nn.Module, x: Tensor, y: Tensor, eps: float, steps: int) -> Tensor:
    import foolbox

    wrapped = foolbox.PyTorchModel(model, bounds=(0, 1))
    made = foolbox.attacks.LinfPGD(abs_stepsize=eps / 4, steps=steps)
    return batched(lambda x, y: made(wrapped, x, y, epsilons=eps)[1], x, y)


def art_estimator(model: nn.Module, x: Tensor) -> Any:
    from art.estimators.classification import PyTorchClassifier

    shape = tuple(x.shape[1:])
    return PyTorchClassifier(model, nn.CrossEntropyLoss(), input_shape=shape, nb_classes=10, clip_values=(0, 1))


def art_pgd(model: nn.Module, x: Tensor, y: Tensor, eps: float, steps: int) -> Tensor:
    from art.attacks.evasion import ProjectedGradientDescent

    made = ProjectedGradientDescent(
        art_estimator(model, x), eps=eps, eps_step=eps / 4, max_iter=steps, num_random_init=1, batch_size=BATCH,
        verbose=False,
    )  # fmt: skip
    return torch.from_numpy(made.generate(x.numpy(), y.numpy()))


def art_apgd(model: nn.Module, x: Tensor, y: Tensor, eps: float, steps: int) -> Tensor:
    from art.attacks.evasion import AutoProjectedGradientDescent

    made = AutoProjectedGradientDescent(
        art_estimator(model, x), eps=eps, eps_step=2 * eps, max_iter=steps, nb_random_init=1, batch_size=BATCH,
        loss_type="cross_entropy", verbose=False,
    )  # fmt: skip
    return torch.from_numpy(made.generate(x.numpy(), y.numpy()))


def art_square(model: nn.Module, x: Tensor, y: Tensor, eps: float, queries: int) -> Tensor:
    from art.attacks.evasion import SquareAttack

    made = SquareAttack(art_estimator(model, x), eps=eps, max_iter=queries, batch_size=BATCH, verbose=False)
    return torch.from_numpy(made.generate(x.numpy(), y.numpy()))


def pyautoattack(names: list[str] | None) -> Attacker:
    """The authors' own: one attack, or the standard ensemble."""

    def attack(model: nn.Module, x: Tensor, y: Tensor, eps: float, budget: int) -> Tensor:
        from pyautoattack import AutoAttack

        made = AutoAttack(model, eps=eps, seed=0, **({"version": "custom", "attacks": names} if names else {}))
        made.apgd.n_restarts = 1  # as in the standard version
        if names == ["apgd-ce"]:
            made.apgd.n_iter = budget
        else:
            made.square.n_queries = budget
        found: Tensor = made.run_standard_evaluation(x, y, batch_size=BATCH)[0]
        return found

    return attack


ATTACKERS: dict[str, dict[str, Attacker]] = {
    "pgd, all steps": {
        "ctrobust": our_pgd_last,
        "torchattacks": torchattacks_pgd,
        "foolbox": foolbox_pgd,
        "art": art_pgd,
    },
    "pgd": {
        "ctrobust": our_pgd,
        "torchattacks": judged(torchattacks_pgd),
        "foolbox": judged(foolbox_pgd),
        "art": judged(art_pgd),
    },
    "apgd-ce": {
        "ctrobust": our_apgd,
        "pyautoattack": pyautoattack(["apgd-ce"]),
        "torchattacks": torchattacks_apgd,
        "art": art_apgd,
    },
    "square": {
        "ctrobust": our_square,
        "pyautoattack": pyautoattack(["square"]),
        "torchattacks": torchattacks_square,
        "art": art_square,
    },
    "autoattack": {
        "ctrobust": our_autoattack,
        "pyautoattack": pyautoattack(None),
        "torchattacks": torchattacks_autoattack,
    },
}
"""Attack -> contender -> how it runs it. A library that is not there does not have the attack."""
