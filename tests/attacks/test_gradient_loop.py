"""Passes are counted one by one, and the first image that fools is the one returned."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ctrobust.attacks import ATTACK_LOSSES, FGSM, MIFGSM, PGD, Attack
from ctrobust.attacks.attack_losses import Loss, resolve_loss
from ctrobust.attacks.attack_state import AttackState
from ctrobust.attacks.gradient_loop import run_gradient_loop
from ctrobust.specs.attack_fields import Success

STEPS, STEP = 5, 0.02
SIGNS = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64)


def plain(logits: Tensor, y: Tensor, _: Tensor) -> Tensor:
    return cross_entropy(logits, y, reduction="none")


@pytest.fixture
def model() -> nn.Linear:
    """Logits (0, t) for images .5 + t SIGNS: the l-infinity distance of such an image to the boundary is |t|."""
    model = nn.Linear(4, 2, dtype=torch.float64)
    model.weight.data = torch.stack([torch.zeros_like(SIGNS), SIGNS / 4])
    model.bias.data = torch.zeros(2, dtype=torch.float64)
    return model


@pytest.fixture
def rows(model: nn.Linear) -> list[int]:
    """The batch size of each call of the model."""
    return batch_sizes(model)


def batch_sizes(model: nn.Module) -> list[int]:
    sizes: list[int] = []
    model.register_forward_hook(lambda _, inputs, __: sizes.append(len(inputs[0])))
    return sizes


def images(*needed: int) -> tuple[Tensor, Tensor]:
    """Images of class 0 that need these numbers of steps of STEP to be fooled; 0 is misclassified without an attack."""
    t = -(torch.tensor(needed, dtype=torch.float64) - 0.5) * STEP
    return 0.5 + t[:, None] * SIGNS, torch.zeros(len(needed), dtype=torch.int64)


NEEDED = (3, 0, 6, 1, 5, 6, 2, 0, 4)
bim = partial(PGD, eps=STEPS * STEP, steps=STEPS, step_size=STEP, random_start=False)


def test_an_example_ends_at_the_first_image_that_fools(model: nn.Linear, rows: list[int]) -> None:
    x, y = images(*NEEDED)
    result = bim().run(model, x, y)
    assert result.success.tolist() == [needed <= STEPS for needed in NEEDED]
    # Pass k + 1 classifies the image after k steps, and differentiates there for active examples if a step is left.
    assert result.forwards.tolist() == [min(needed, STEPS) + 1 for needed in NEEDED]
    assert result.backwards.tolist() == [min(needed, STEPS) for needed in NEEDED]
    made = torch.tensor([min(needed, STEPS) for needed in NEEDED], dtype=torch.float64)
    torch.testing.assert_close(result.x_adv, x + STEP * made[:, None] * SIGNS, rtol=0, atol=1e-15)
    assert torch.equal(result.x_adv[made == 0], x[made == 0])
    # Fooled examples are dropped: 9 at first, then those that need more steps.
    assert rows == [sum(needed >= k for needed in NEEDED) for k in range(STEPS + 1)]
    assert rows == [9, 7, 6, 5, 4, 3]


def test_given_clean_logits_save_passes_of_misclassified_examples(model: nn.Linear, rows: list[int]) -> None:
    x, y = images(*NEEDED)
    with torch.no_grad():
        clean = model(x)
    rows.clear()
    result = bim().run(model, x, y, clean_logits=clean)
    assert result.success.tolist() == [needed <= STEPS for needed in NEEDED]
    assert result.forwards.tolist() == [min(needed, STEPS) + 1 if needed else 0 for needed in NEEDED]
    assert result.backwards.tolist() == [min(needed, STEPS) for needed in NEEDED]
    assert torch.equal(result.x_adv[[1, 7]], x[[1, 7]])
    assert rows == [7, 7, 6, 5, 4, 3]


def test_random_start_costs_a_clean_pass(model: nn.Linear) -> None:
    # Twice the radius away: no start helps.
    x, y = images(0, 12, 0, 12)
    attack = PGD(eps=STEPS * STEP, steps=STEPS, step_size=STEP)
    result = attack.run(model, x, y)
    assert result.success.tolist() == [True, False, True, False]
    assert result.forwards.tolist() == [1, 1 + STEPS + 1, 1, 1 + STEPS + 1]
    assert result.backwards.tolist() == [0, STEPS, 0, STEPS]
    assert torch.equal(result.x_adv[::2], x[::2])
    given = attack.run(model, x, y, clean_logits=model(x).detach())
    assert given.forwards.tolist() == [0, STEPS + 1, 0, STEPS + 1]
    assert given.backwards.tolist() == [0, STEPS, 0, STEPS]
    assert torch.equal(given.x_adv, result.x_adv)


def test_a_start_that_fools_is_returned(model: nn.Linear) -> None:
    # So near to the boundary that half of the starts are beyond it.
    t = torch.full((200, 1), -5e-5, dtype=torch.float64)
    x, y = 0.5 + t * SIGNS, torch.zeros(200, dtype=torch.int64)
    start = PGD(0.1, steps=1, step_size=0.0, success="last")(model, x, y)
    at_once = model(start).argmax(1) == 1
    assert 60 < at_once.sum() < 140
    result = PGD(0.1, steps=3).run(model, x, y)
    assert torch.equal(result.x_adv[at_once], start[at_once])
    assert set(result.forwards[at_once].tolist()) == {2}
    assert set(result.backwards[at_once].tolist()) == {0}
    assert result.forwards[~at_once].min() >= 3


def test_with_success_last_all_steps_are_made(model: nn.Linear, rows: list[int]) -> None:
    x, y = images(*NEEDED)
    result = bim(success="last").run(model, x, y)
    assert result.success.tolist() == [needed <= STEPS for needed in NEEDED]
    assert result.forwards.tolist() == [STEPS + 1] * 9
    assert result.backwards.tolist() == [STEPS] * 9
    torch.testing.assert_close(result.x_adv, x + STEPS * STEP * SIGNS, rtol=0, atol=1e-15)
    assert rows == [9] * (STEPS + 1)


def test_with_success_last_only_the_final_iterate_counts(model: nn.Linear) -> None:
    # A loss that leads back: misclassified at first, right in the end.
    x, y = images(-1, 6)
    back = bim(loss=lambda z, y, clean: -plain(z, y, clean), success="last").run(model, x, y)
    assert back.success.tolist() == [False, False]
    assert bim(loss=lambda z, y, clean: -plain(z, y, clean)).run(model, x, y).success.tolist() == [True, False]


def test_a_call_does_not_classify_the_final_iterate(model: nn.Linear, rows: list[int]) -> None:
    x, y = images(*NEEDED)
    x_adv = bim(success="last")(model, x, y)
    assert rows == [9] * STEPS
    assert torch.equal(x_adv, bim(success="last").run(model, x, y).x_adv)
    rows.clear()
    x_adv = bim()(model, x, y)
    assert rows == [9, 7, 6, 5, 4]
    assert torch.equal(x_adv, bim().run(model, x, y).x_adv)


def test_nothing_is_run_when_all_are_misclassified(model: nn.Linear, rows: list[int]) -> None:
    x, y = images(0, 0)
    result = bim(steps=50).run(model, x, y, clean_logits=torch.tensor([[0.0, 1.0], [0.0, 1.0]], dtype=torch.float64))
    assert rows == []
    assert result.success.all()
    assert not result.forwards.any()
    assert torch.equal(result.x_adv, x)


@pytest.mark.parametrize("success", ["any", "last"])
def test_no_start_is_drawn_without_active_examples(model: nn.Linear, rows: list[int], success: Success) -> None:
    x, y = images(0, 0)
    state = AttackState(model, x, y)
    state.fooled[:] = True

    def never(*_: Tensor) -> Tensor:
        raise AssertionError

    run_gradient_loop(state, resolve_loss("ce"), start=never, step=never, steps=3, success=success)
    assert sum(rows) == (2 if success == "any" else 0)  # the clean pass


def test_steps_get_the_positions_of_the_active_examples(model: nn.Linear) -> None:
    x, y = images(*NEEDED)
    state, seen = AttackState(model, x, y), []

    def step(index: Tensor, at: Tensor, adv: Tensor, gradient: Tensor) -> Tensor:
        assert torch.equal(at, x[index])
        assert adv.shape == gradient.shape == at.shape
        seen.append(index.tolist())
        return adv + STEP * SIGNS

    run_gradient_loop(state, resolve_loss("ce"), start=None, step=step, steps=STEPS, success="any")
    assert seen == [[i for i, needed in enumerate(NEEDED) if needed > k] for k in range(STEPS)]
    assert state.fooled.tolist() == [needed <= STEPS for needed in NEEDED]


def test_averaged_gradients_count_every_pass(model: nn.Linear, rows: list[int]) -> None:
    x, y = images(*NEEDED)
    result = bim(eot=3).run(model, x, y)
    single = bim().run(model, x, y)
    assert torch.equal(result.x_adv, single.x_adv)
    assert torch.equal(result.success, single.success)
    assert torch.equal(result.backwards, 3 * single.backwards)
    # The final iterate is classified once.
    classified = torch.tensor([needed >= STEPS for needed in NEEDED]).long()
    assert torch.equal(result.forwards, 3 * (single.forwards - classified) + classified)
    assert result.forwards.sum() + single.forwards.sum() == sum(rows)


DIVERGENCES = ("kl", "skl")
MAKES: dict[str, Callable[..., Attack]] = {
    "fgsm": FGSM,
    "pgd": partial(PGD, steps=4),
    "bim": partial(PGD, steps=4, random_start=False),
    "mifgsm": partial(MIFGSM, steps=4),
}


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("success", ["any", "last"])
@pytest.mark.parametrize("loss", [*ATTACK_LOSSES, plain])
@pytest.mark.parametrize("kind", MAKES)
def test_what_is_counted_is_what_the_model_saw(
    network: nn.Sequential, digits: tuple[Tensor, Tensor], kind: str, loss: str | Loss, success: str, given: bool
) -> None:
    x, y = digits[0][:20], digits[1][:20].clone()
    with torch.no_grad():
        clean = network(x)
    y[:3] = (clean[:3].argmax(1) + 1) % 10
    calls: list[int] = []
    handle = network.register_forward_hook(lambda _, inputs, __: calls.append(len(inputs[0])))
    try:
        result = MAKES[kind](eps=0.06, loss=loss, success=success).run(
            network, x, y, clean_logits=clean if given else None
        )
    finally:
        handle.remove()
    assert result.forwards.sum() == sum(calls)
    assert (result.forwards >= result.backwards).all()
    steps = 1 if kind == "fgsm" else 4
    beside = kind == "pgd" or (kind == "fgsm" and loss in DIVERGENCES)
    first = int(not given and (callable(loss) or loss in DIVERGENCES or (success == "any" and beside)))
    if success == "last":
        assert result.forwards.tolist() == [first + steps + 1] * 20
        assert result.backwards.tolist() == [steps] * 20
    else:
        assert torch.equal(result.x_adv[:3], x[:3])
        assert result.success[:3].all()
        alone = int(not given and not first)
        assert result.forwards[:3].tolist() == [first + alone] * 3
        assert result.backwards[:3].tolist() == [0] * 3
        active = ~result.success
        assert (result.forwards[active] == first + steps + 1).all()
        assert (result.backwards[active] == steps).all()
    with torch.no_grad():
        assert torch.equal(result.success, network(result.x_adv).argmax(1) != y)
