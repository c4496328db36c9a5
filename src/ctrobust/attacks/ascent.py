"""The loop of plain gradient attacks: ascend an objective, drop who is fooled."""

from collections.abc import Callable
from typing import Literal

from torch import Tensor

from ctrobust.attacks.objectives import Objective
from ctrobust.attacks.victim import Victim

Success = Literal["any", "last"]
"""`any`: the first image that fools ends an example's attack; `last`: all steps are made, the last image counts."""


def ascend(
    victim: Victim,
    objective: Objective,
    *,
    start: Callable[[Tensor, Tensor], Tensor] | None,
    step: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor],
    steps: int,
    success: Success,
    eot: int = 1,
    judge: bool = True,
) -> None:
    """Begin at `start(x, keys)`, or at x itself, and make steps (index, x, adv, gradient) -> adv.

    Without `judge` the last image is not run through the model, and who was not seen fooled stands.
    """
    if success == "any" and (victim.clean_known or start is not None or objective.needs_clean):
        victim.drop_misclassified()
    index = victim.standing()
    if not len(index):
        return
    x = victim.x[index]
    adv = x if start is None else start(x, victim.keys[index])

    for _ in range(steps):
        if not len(index):
            return
        if success == "last":
            gradient, _, _ = victim.gradient(adv, index, objective, eot=eot)
        else:
            stands, gradient, _ = victim.gradient_of_standing(adv, index, objective, eot=eot)
            if len(gradient) < len(index):
                victim.note(index[~stands], adv[~stands], fooled=True)
                index, x, adv = index[stands], x[stands], adv[stands]
        adv = step(index, x, adv, gradient)

    if len(index):
        fooled = victim.wrong(victim.forward(adv, index), index) if judge else False
        victim.note(index, adv, fooled)
