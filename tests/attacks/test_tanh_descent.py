"""Adam in tanh space is torch's, each example by itself, and never leaves the box."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ctrobust.attacks.tanh_descent import Descent, to_image, to_tanh

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


@settings(max_examples=100, deadline=None)
@given(place=st.floats(allow_nan=False), dtype=st.sampled_from([torch.float32, torch.float64]))
def test_no_place_is_outside_the_box(place: float, dtype: torch.dtype) -> None:
    assert 0 <= to_image(torch.tensor([place]).to(dtype)).item() <= 1


@DTYPES
def test_images_are_mapped_there_and_back(dtype: torch.dtype) -> None:
    x = torch.linspace(0, 1, 257, dtype=dtype)
    before = x.clone()
    place = to_tanh(x)
    assert torch.equal(x, before)
    assert place.isfinite().all()
    assert (place.diff() > 0).all()
    assert (to_image(place) - x).abs().max() <= 6e-7
    torch.testing.assert_close(to_image(place)[128], x[128], rtol=0, atol=0)
    # Black and white keep a gradient.
    assert (to_image(place) * (1 - to_image(place)) > 0).all()


def wanted(images: Tensor) -> Tensor:
    """What the tests minimize, (n,)."""
    weights = torch.arange(1.0, images[0].numel() + 1, dtype=images.dtype).view(images.shape[1:])
    return ((images - 0.3).square() * weights + (5 * images).sin() / 9).flatten(1).sum(1)


def gradient(images: Tensor) -> Tensor:
    at = images.clone().requires_grad_()
    return torch.autograd.grad(wanted(at).sum(), at)[0]


def by_torch(x: Tensor, steps: int, lr: float) -> list[Tensor]:
    """The images of torch's own Adam, differentiating through tanh, for one example."""
    place = torch.atanh((2 * x[None] - 1) * 0.999999).requires_grad_()
    optimizer, images = torch.optim.Adam([place], lr=lr), []
    for _ in range(steps):
        optimizer.zero_grad()
        torch.autograd.backward(wanted((place.tanh() + 1) / 2).sum())
        optimizer.step()
        images.append(((place.detach().tanh() + 1) / 2)[0])
    return images


X = torch.rand(4, 2, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
X[0, 0], X[1, 1] = 0.0, 1.0


@pytest.mark.parametrize("lr", [0.01, 0.3])
def test_it_is_adam(lr: float) -> None:
    descent = Descent.begin(X)
    expected = [by_torch(x, 12, lr) for x in X]
    for step in range(12):
        images = descent.images()
        descent.step(images, gradient(images), lr)
        for i in range(4):
            torch.testing.assert_close(descent.images()[i], expected[i][step], rtol=0, atol=1e-12)
    assert descent.count.tolist() == [12] * 4


def test_examples_restart_and_leave_by_themselves() -> None:
    descent, lr = Descent.begin(X), 0.05
    expected = [by_torch(x, 9, lr) for x in X]
    who = torch.arange(4)
    made = torch.zeros(4, dtype=torch.int64)
    for step in range(9):
        images = descent.images()
        descent.step(images, gradient(images), lr)
        made += 1
        if step == 2:
            descent.restart(torch.tensor([False, True, False, True]))
            made[[1, 3]] = 0
        if step == 5:
            active = torch.tensor([True, True, False, True])
            descent.keep(active)
            who, made = who[active], made[active]
        assert torch.equal(descent.count, made)
        for row, i in enumerate(who.tolist()):
            images = expected[i][int(made[row]) - 1] if made[row] else to_image(to_tanh(X[i]))
            torch.testing.assert_close(descent.images()[row], images, rtol=0, atol=1e-12)
    assert len(descent.place) == len(descent.first) == len(descent.second) == 3


def test_the_first_step_is_of_lr_whatever_the_gradient() -> None:
    for scale in (1e-3, 1.0, 1e3):
        descent = Descent.begin(torch.full((1, 3), 0.5, dtype=torch.float64))
        descent.step(descent.images(), torch.tensor([[1.0, -2.0, 0.0]], dtype=torch.float64) * scale, 0.01)
        expected = torch.tensor([[-0.01, 0.01, 0.0]], dtype=torch.float64)
        torch.testing.assert_close(descent.place, expected, rtol=0, atol=1e-6)


@DTYPES
def test_black_and_white_move_and_stay_finite(dtype: torch.dtype) -> None:
    descent = Descent.begin(torch.tensor([[0.0, 1.0]], dtype=dtype))
    for _ in range(50):
        images = descent.images()
        descent.step(images, torch.tensor([[-1.0, 1.0]], dtype=dtype), 0.3)
    assert descent.images()[0, 0] > 0.1
    assert descent.images()[0, 1] < 0.9
    for _ in range(300):
        images = descent.images()
        descent.step(images, torch.tensor([[1e6, -1e6]], dtype=dtype), 1.0)
    assert descent.place.isfinite().all()
    assert descent.images()[0].tolist() == pytest.approx([0.0, 1.0], abs=1e-6)
    assert descent.images().min() >= 0
    assert descent.images().max() <= 1
