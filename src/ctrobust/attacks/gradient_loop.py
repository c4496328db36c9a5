"""The loop of plain gradient attacks: increase a loss step by step, and drop fooled examples."""

from collections.abc import Callable

from torch import Tensor

from ctrobust.attacks.attack_losses import AttackLoss
from ctrobust.attacks.attack_state import AttackState
from ctrobust.specs.attack_fields import Success


def run_gradient_loop(
    state: AttackState,
    attack_loss: AttackLoss,
    *,
    start: Callable[[Tensor, Tensor], Tensor] | None,
    step: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor],
    steps: int,
    success: Success,
    eot: int = 1,
    restart: int = 0,
    verify_last: bool = True,
) -> None:
    """Start from `start(x, keys)`, or from x itself, and make steps `step(index, x, adv, gradient)` -> next iterate.

    A warm start of the attack state takes the place of `start`.

    If `verify_last` is false, the final iterate is not classified; examples not fooled before it count as robust.
    """
    if success == "any" and (state.clean_known or start is not None or attack_loss.needs_clean):
        state.drop_misclassified()
    index = state.active()
    if not len(index):
        return
    x = state.x[index]
    adv = state.start(index, restart, start)

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
