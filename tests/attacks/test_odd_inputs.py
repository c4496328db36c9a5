"""Unusual but valid inputs and fields, and invalid ones that are refused."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ctrobust import draws
from ctrobust.attacks import FGSM, MIFGSM, PGD, parse
from ctrobust.attacks.attack_losses import Loss
from ctrobust.errors import InputError
from ctrobust.specs.attack_fields import Norm


def plain(logits: Tensor, y: Tensor, _: Tensor) -> Tensor:
    return cross_entropy(logits, y, reduction="none")


def small() -> tuple[nn.Module, Tensor, Tensor]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.Tanh(), nn.Linear(8, 4))
    x = torch.rand(6, 3, 2, 2)
    return net, x, net(x).argmax(1)


@pytest.mark.parametrize("loss", ["kl", "skl"])
@pytest.mark.parametrize("eps", [0.0, 1e-4, 1e-3])
def test_the_start_beside_the_image_is_inside_the_ball(loss: str, eps: float) -> None:
    """The images are so near the boundary that the start itself is misclassified half of the time."""
    direction = torch.tensor([0.25, -0.25, 0.25, -0.25], dtype=torch.float64)
    model = nn.Linear(4, 3, dtype=torch.float64)
    model.weight.data = torch.stack([torch.zeros_like(direction), direction, torch.zeros_like(direction)])
    model.bias.data = torch.tensor([0.0, 0.0, -9.0], dtype=torch.float64)
    x = (0.5 - 5e-5 * direction.sign()).expand(200, 4)
    result = FGSM(eps, loss=loss).run(model, x, torch.zeros(200, dtype=torch.int64))
    assert (result.x_adv - x).abs().max() <= eps + 1e-15


@pytest.mark.parametrize("loss", ["kl", "skl"])
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_a_divergence_without_a_random_start_begins_beside_the_image(loss: str, norm: Norm) -> None:
    model, x, y = small()
    for attack in (
        PGD(0.1, steps=5, loss=loss, norm=norm, random_start=False, success="last"),
        MIFGSM(0.1, steps=5, loss=loss, norm=norm, success="last"),
        FGSM(0.1, loss=loss, norm=norm, success="last"),
    ):
        moved = attack(model, x, y) - x
        assert moved.abs().flatten(1).amax(1).min() > 0.02


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32])
@pytest.mark.parametrize("loss", ["ce", "sce", "std", plain])
def test_labels_of_any_integer_type(dtype: torch.dtype, loss: str | Loss) -> None:
    model, x, y = small()
    attack = FGSM(0.1, loss=loss)
    assert torch.equal(attack(model, x, y.to(dtype)), attack(model, x, y))


@pytest.mark.parametrize("success", ["any", "last"])
@pytest.mark.parametrize("loss", ["ce", "kl", "skl", "std"])
@pytest.mark.parametrize("kind", [FGSM, PGD, MIFGSM])
@pytest.mark.parametrize("training", [True, False])
def test_tensors_made_in_inference_mode(
    kind: type[FGSM] | type[PGD] | type[MIFGSM], loss: str, success: str, training: bool
) -> None:
    model, x, y = small()
    model.train(training)
    attack = kind(0.1, loss=loss, success=success)  # type: ignore[arg-type]
    expected = attack(model, x, y)
    with torch.inference_mode():
        made_x, made_y = x.clone(), y.clone()
        run = attack.run(model, made_x, made_y, clean_logits=model(made_x)).x_adv
        called = attack(model, made_x, made_y)
    assert torch.equal(run, expected)
    assert torch.equal(called, expected)


@pytest.mark.parametrize("clean", [torch.zeros(5, 4), torch.full((6, 4), float("nan")), torch.zeros(6)])
@pytest.mark.parametrize("success", ["any", "last"])
def test_invalid_clean_logits_are_refused(clean: Tensor, success: str) -> None:
    model, x, y = small()
    with pytest.raises(InputError):
        PGD(0.1, success=success).run(model, x, y, clean_logits=clean)  # type: ignore[arg-type]


def test_nan_gradients_are_refused() -> None:
    model, x, y = small()

    class Root(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = model(x) + (x.sqrt().flatten(1) * 0).sum(1, keepdim=True)
            return out

    x[:, :, 0] = 0
    with pytest.raises(InputError, match="gradient with respect to the images is NaN"):
        FGSM(0.1, success="last")(Root(), x, y)


@pytest.mark.parametrize("drop", [1.0, 1 - 2**-18])
def test_a_drop_rate_that_rounds_to_one_keeps_nothing(drop: float) -> None:
    assert not draws.keep(torch.arange(9), 3, 100, drop).any()


def test_an_integer_drop_rate() -> None:
    assert draws.keep(torch.arange(9), 3, 100, 0).all()


@pytest.mark.parametrize("seed", [10**18, 2**63 - 1, -(2**63)])
def test_large_seeds_round_trip(seed: int) -> None:
    assert parse(str(PGD(0.1, seed=seed))) == PGD(0.1, seed=seed)


def test_numpy_integers_give_the_same_stream() -> None:
    assert draws.stream(int(np.int64(3)), "pgd") == draws.stream(np.int64(3), "pgd")  # type: ignore[arg-type]


def test_an_infinite_gamma_is_refused() -> None:
    with pytest.raises(InputError, match="gamma is finite"):
        FGSM(0.1, loss="sce(gamma=1e999)")


@pytest.mark.parametrize("count", [2.5, 2.0, True])
def test_counts_are_whole(count: float) -> None:
    with pytest.raises(InputError, match="steps is a whole number"):
        PGD(0.1, steps=count)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="restarts is a whole number"):
        PGD(0.1, restarts=count)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="eot is a whole number"):
        MIFGSM(0.1, eot=count)  # type: ignore[arg-type]
