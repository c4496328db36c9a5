"""Invalid inputs raise clear errors, before the model is run where possible."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ctrobust import draws, evaluate, regularizers
from ctrobust.attacks import APGD, CW, FAB, FGSM, MIFGSM, PGD, Attack, AutoAttack, Noise, Square, model_checks
from ctrobust.attacks.model_checks import check_batch, check_logits, untouched
from ctrobust.errors import InputError
from ctrobust.recipes import Madry

X, Y = torch.full((3, 1, 2, 2), 0.5), torch.tensor([0, 1, 2])
every_attack = pytest.mark.parametrize(
    "attack",
    [FGSM(0.1), PGD(0.1), PGD(0.1, random_start=False, success="last"), MIFGSM(0.1), PGD(0.1, norm="l2", restarts=2)],
)


class Gives(nn.Module):
    """Logits by a function of the images; counts its calls."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function, self.calls = function, 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.function(x)


def with_pixel(value: float) -> Tensor:
    x = X.clone()
    x[1, 0, 0, 1] = value
    return x


CLAMP = "clamp what rounding left, and normalize inside the model"
IMAGES: list[tuple[Tensor, str]] = [
    (X.to(torch.uint8), "images are floating point in [0, 1], got torch.uint8; divide uint8 images by 255"),
    (X.long(), "images are floating point in [0, 1], got torch.int64; divide uint8 images by 255"),
    (X[:0], "images have shape (N, ...) with N >= 1, got (0, 1, 2, 2)"),
    (X[:, 0, 0, 0], "images have shape (N, ...) with N >= 1, got (3,)"),
    (255 * X, "images are in [0, 1], got values from 127.5 to 127.5; divide by 255"),
    (with_pixel(1.0000001), f"images are in [0, 1], got values from 0.5 to 1.00000012; {CLAMP}"),
    (with_pixel(-0.001), f"images are in [0, 1], got values from -0.00100000005 to 0.5; {CLAMP}"),
    (with_pixel(float("nan")), "images are in [0, 1], got values from nan to nan; NaN and infinity are no pixels"),
    (with_pixel(float("inf")), "images are in [0, 1], got values from 0.5 to inf; NaN and infinity are no pixels"),
]
LABELS: list[tuple[Tensor, str]] = [
    (Y[:2], "labels are integers of shape (3,), got torch.int64 of shape (2,)"),
    (Y[:, None], "labels are integers of shape (3,), got torch.int64 of shape (3, 1)"),
    (torch.eye(3)[Y], "labels are integers of shape (3,), got torch.float32 of shape (3, 3)"),
    (Y.float(), "labels are integers of shape (3,), got torch.float32 of shape (3,)"),
    (Y.bool(), "labels are integers of shape (3,), got torch.bool of shape (3,)"),
]
KEYS: list[tuple[Tensor, str]] = [
    (torch.arange(4), "keys are int64 of shape (3,), got torch.int64 of shape (4,)"),
    (torch.arange(3)[:, None], "keys are int64 of shape (3,), got torch.int64 of shape (3, 1)"),
    (torch.arange(3).int(), "keys are int64 of shape (3,), got torch.int32 of shape (3,)"),
    (torch.arange(3.0), "keys are int64 of shape (3,), got torch.float32 of shape (3,)"),
]
BATCHES = (
    [(x, Y, None, message) for x, message in IMAGES]
    + [(X, y, None, message) for y, message in LABELS]
    + [(X, Y, keys, message) for keys, message in KEYS]
)


@every_attack
@pytest.mark.parametrize(("x", "y", "keys", "message"), BATCHES, ids=[message for *_, message in BATCHES])
def test_invalid_batches_raise(attack: Attack, x: Tensor, y: Tensor, keys: Tensor | None, message: str) -> None:
    model = Gives(lambda x: x.flatten(1)).eval()
    for call in (lambda: attack(model, x, y, keys), lambda: attack.run(model, x, y, keys)):
        with pytest.raises(InputError) as caught:
            call()
        assert str(caught.value) == message
    assert model.calls == 0


def test_valid_batches() -> None:
    for x in (X, with_pixel(0.0), with_pixel(1.0), X.double(), X.half()):
        for y in (Y, Y.int(), Y.to(torch.uint8)):
            assert check_batch(x, y, None).tolist() == [0, 1, 2]
            assert check_batch(x, y, torch.tensor([5, -1, 5])).tolist() == [5, -1, 5]


OUTPUTS: list[tuple[Callable[[Tensor], Tensor], str]] = [
    (lambda x: x.flatten(1)[:, 0], "the model gives logits (N, C) = (3, C), C >= 2, got (3,)"),
    (lambda x: x, "the model gives logits (N, C) = (3, C), C >= 2, got (3, 1, 2, 2)"),
    (lambda x: x.flatten(1).mean(0, keepdim=True), "the model gives logits (N, C) = (3, C), C >= 2, got (1, 4)"),
    (lambda x: x.flatten(1) * float("nan"), "the model's logits are not all finite: NaN or infinity found"),
    (lambda x: x.flatten(1) / 0, "the model's logits are not all finite: NaN or infinity found"),
    (lambda x: x.flatten(1)[:, :2], "labels are in 0..1, got 0 to 2"),
]


@every_attack
@pytest.mark.parametrize(("function", "message"), OUTPUTS)
def test_invalid_logits_raise(attack: Attack, function: Callable[[Tensor], Tensor], message: str) -> None:
    # In evaluation mode long attacks first try to make a fused copy, which must not change the message.
    for training in (True, False):
        model = Gives(function).train(training)
        with pytest.raises(InputError) as caught:
            attack.run(model, X, Y)
        assert str(caught.value) == message
        assert model.calls == 1 or not training


@every_attack
def test_negative_labels_raise(attack: Attack) -> None:
    with pytest.raises(InputError) as caught:
        attack(Gives(lambda x: x.flatten(1)), X, Y - 1)
    assert str(caught.value) == "labels are in 0..3, got -1 to 1"


def test_one_infinite_logit_raises() -> None:
    for bad in (float("nan"), float("inf"), float("-inf")):
        logits = torch.zeros(3, 4)
        assert check_logits(logits, Y) is logits
        logits[2, 3] = bad
        with pytest.raises(InputError, match="not all finite"):
            check_logits(logits, Y)


@every_attack
def test_arguments_that_are_no_tensors_or_modules_raise(attack: Attack) -> None:
    model = Gives(lambda x: x.flatten(1)).eval()
    calls: tuple[Any, ...] = (attack, attack.run)
    for call in calls:
        with pytest.raises(InputError, match="images are a torch tensor, got ndarray"):
            call(model, X.numpy(), Y)
        with pytest.raises(InputError, match="labels are a torch tensor, got list"):
            call(model, X, [0, 1, 2])
        with pytest.raises(InputError, match=r"a model is a torch.nn.Module, got function; wrap a function in one"):
            call(lambda x: x.flatten(1), X, Y)


@pytest.mark.parametrize("noise", [nn.Dropout(), nn.Dropout2d(), nn.BatchNorm2d(1), regularizers.Dropout(0.5)])
@every_attack
def test_a_model_in_training_mode_gives_a_warning(attack: Attack, noise: nn.Module) -> None:
    model = nn.Sequential(noise, nn.Flatten())
    calls: tuple[Callable[[nn.Module, Tensor, Tensor], object], ...] = (attack, attack.run)
    for call in calls:
        name = type(noise).__name__
        with pytest.warns(UserWarning, match=f"in training mode, where {name} computes otherwise") as caught:
            call(model, X, Y)
        assert [warning.filename for warning in caught] == [__file__]
        call(model.eval(), X, Y)
        call(nn.Sequential(nn.Flatten()), X, Y)
        model.train()


@pytest.mark.parametrize("attack", [FGSM(0.1), PGD(0.1, success="last"), APGD(0.1, steps=3), Square(0.1, queries=5)])
def test_probabilities_give_a_warning(attack: Attack) -> None:
    x = torch.rand(8, 1, 2, 2, generator=torch.Generator().manual_seed(0))
    y = torch.zeros(8, dtype=torch.int64)
    model = nn.Flatten().eval()
    with pytest.warns(
        UserWarning, match="gives probabilities: .* Remove its softmax. Attacks are weaker on it"
    ) as caught:
        attack.run(nn.Sequential(model, nn.Softmax(1)).eval(), x, y)
    assert len(caught) == 1
    attack.run(model, x, y)
    attack.run(nn.Sequential(model, nn.LogSoftmax(1)).eval(), x, y)


@pytest.mark.parametrize("error", [None, RuntimeError("broken")])
def test_modes_and_generators_are_restored(error: Exception | None) -> None:
    model = nn.Sequential(nn.Dropout(), nn.Sequential(nn.Dropout().eval(), nn.Dropout()))
    modes = [module.training for module in model.modules()]
    generator = torch.get_rng_state()

    def disturb() -> None:
        with untouched(model, X):
            assert torch.is_grad_enabled()
            assert not torch.is_inference_mode_enabled()
            model.eval()
            model[1].train()
            torch.rand(3)
            if error is not None:
                raise error

    with torch.inference_mode():
        if error is None:
            disturb()
        else:
            with pytest.raises(RuntimeError, match="broken"):
                disturb()
        assert torch.is_inference_mode_enabled()
    assert [module.training for module in model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), generator)


def warnings_of_keys(call: Callable[[], object]) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [warning for warning in caught if "without keys" in str(warning.message)]


def test_an_attack_without_keys_on_a_model_in_training_mode_warns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_checks, "warned_of", set())
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
    recipe: Any = Madry()
    quiet: list[Callable[[], object]] = [
        lambda: PGD(0.1)(model.eval(), X, Y),
        lambda: PGD(0.1)(model.train(), X, Y, torch.arange(3)),
        lambda: FGSM(0.1)(model, X, Y),
        lambda: PGD(0.1, random_start=False).run(model, X, Y),
        lambda: FAB(0.1, steps=2)(model, X, Y),
        lambda: CW(0.1, steps=2)(model, X, Y),
        lambda: evaluate(model, (X, Y), PGD(0.1)),
        lambda: next(recipe(model, X, Y)),
    ]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the model is in training mode; it is evaluated in eval mode")
        assert [warnings_of_keys(call) for call in quiet] == [[]] * len(quiet)
    (warning,) = warnings_of_keys(lambda: PGD(0.1)(model, X, Y))
    assert "pass keys that change, as keys=torch.arange(len(x)) + step * len(x)" in str(warning.message)
    assert warning.filename == __file__
    for attack in (PGD(0.1), APGD(0.1, steps=2)):
        assert warnings_of_keys(lambda: attack.run(model, X, Y)) == []  # noqa: B023 - called at once


@pytest.mark.parametrize(
    "attack",
    [
        FGSM(0.1), FGSM(0.1, loss="kl"), MIFGSM(0.1, steps=2), MIFGSM(0.1, steps=2, loss="skl"), PGD(0.1, steps=2),
        PGD(0.1, steps=2, random_start=False), APGD(0.1, steps=2), FAB(0.1, steps=2), FAB(0.1, steps=2, restarts=2),
        CW(0.1, steps=2), CW(0.1, steps=2, form="tanh"), CW(0.1, steps=2, form="pgd"), Square(0.1, queries=3),
        Noise(0.1, draws=2), AutoAttack(0.1, queries=2),
    ],
    ids=str,
)  # fmt: skip
def test_an_attack_knows_whether_it_makes_draws(attack: Attack, monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 4)).eval()
    model[1].weight.data, model[1].bias.data = 0.01 * torch.eye(4), torch.tensor([9.0, 0, 0, 0])  # robust at 0.1
    drawn: list[int] = []
    words = draws.words

    def recorded(keys: Tensor, stream: int, count: int) -> Tensor:
        drawn.append(stream)
        return words(keys, stream, count)

    monkeypatch.setattr(draws, "words", recorded)
    monkeypatch.setattr("ctrobust.attacks.fused.fuse", lambda model, _: model)  # whose probes are drawn too
    attack.run(model, X, torch.zeros(3, dtype=torch.int64))
    assert bool(drawn) == attack.uses_keys()
