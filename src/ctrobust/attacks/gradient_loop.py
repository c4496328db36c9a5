"""The loop of plain gradient attacks: ascend an objective, drop who is fooled."""

from collections.abc import Callable
from typing import Literal

from torch import Tensor

from ctrobust.attacks.attack_losses import AttackLoss
from ctrobust.attacks.attack_state import AttackState

Success = Literal["any", "last"]
"""`any`: the first image that fools ends an example's attack; `last`: all steps are made, the last image counts."""


def run_gradient_loop(
    state: AttackState,
    attack_loss: AttackLoss,
    *,
    start: Callable[[Tensor, Tensor], Tensor] | None,
    step: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor],
    steps: int,
    success: Success,
    eot: int = 1,
    verify_last: bool = True,
) -> None:
    """Begin at `start(x, keys)`, or at x itself, and make steps (index, x, adv, gradient) -> adv.

    Without `judge` the last image is not run through the model, and who was not seen fooled stands.
    """
    if success == "any" and (state.clean_known or start is not None or attack_loss.needs_clean):
        state.drop_misclassified()
    index = state.active()
    if not len(index):
        return
    x = state.x[index]
    adv = x if start is None else start(x, state.keys[index])

    for _ in range(steps):
        if not len(index):
            return
        if success == "last":
            gradient, _, _ = state.gradient(adv, index, attack_loss, eot=eot)
        else:
            broken, active, gradient, _ = state.gradient_of_active(adv, index, attack_loss, eot=eot)
            if len(broken):
                state.record(index[broken], adv[broken], fooled=True)
                index, x, adv = index[active], x[active], adv[active]
        adv = step(index, x, adv, gradient)

    if len(index):
        fooled = state.wrong(state.forward(adv, index), index) if verify_last else False
        state.record(index, adv, fooled)
