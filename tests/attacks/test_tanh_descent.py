"""Adam in tanh space agrees with torch's Adam on each example alone, and never leaves the box."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ctrobust.attacks.tanh_descent import TanhAdam, to_image, to_tanh

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


@settings(max_examples=100, deadline=None)
@given(w=st.floats(allow_nan=False), dtype=st.sampled_from([torch.float32, torch.float64]))
def test_every_point_of_tanh_space_is_in_the_box(w: float, dtype: torch.dtype) -> None:
    assert 0 <= to_image(torch.tensor([w]).to(dtype)).item() <= 1


@DTYPES
def test_images_are_mapped_there_and_back(dtype: torch.dtype) -> None:
    x = torch.linspace(0, 1, 257, dtype=dtype)
    before = x.clone()
    w = to_tanh(x)
    assert torch.equal(x, before)
    assert w.isfinite().all()
    assert (w.diff() > 0).all()
    assert (to_image(w) - x).abs().max() <= 6e-7
    torch.testing.assert_close(to_image(w)[128], x[128], rtol=0, atol=0)
    # Black and white pixels have a gradient.
    assert (to_image(w) * (1 - to_image(w)) > 0).all()


def objective(images: Tensor) -> Tensor:
    """The function (n,) that the tests minimize."""
    weights = torch.arange(1.0, images[0].numel() + 1, dtype=images.dtype).view(images.shape[1:])
    return ((images - 0.3).square() * weights + (5 * images).sin() / 9).flatten(1).sum(1)


def gradient(images: Tensor) -> Tensor:
    at = images.clone().requires_grad_()
    return torch.autograd.grad(objective(at).sum(), at)[0]


def by_torch(x: Tensor, steps: int, lr: float) -> list[Tensor]:
    """The images of torch.optim.Adam, differentiating through tanh, for one example."""
    w = torch.atanh((2 * x[None] - 1) * 0.999999).requires_grad_()
    optimizer, images = torch.optim.Adam([w], lr=lr), []
    for _ in range(steps):
        optimizer.zero_grad()
        torch.autograd.backward(objective((w.tanh() + 1) / 2).sum())
        optimizer.step()
        images.append(((w.detach().tanh() + 1) / 2)[0])
    return images


X = torch.rand(4, 2, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
X[0, 0], X[1, 1] = 0.0, 1.0


@pytest.mark.parametrize("lr", [0.01, 0.3])
def test_agrees_with_torch_adam(lr: float) -> None:
    adam = TanhAdam.begin(X)
    expected = [by_torch(x, 12, lr) for x in X]
    for step in range(12):
        images = adam.images()
        adam.step(images, gradient(images), lr)
        for i in range(4):
            torch.testing.assert_close(adam.images()[i], expected[i][step], rtol=0, atol=1e-12)
    assert adam.count.tolist() == [12] * 4


def test_examples_are_restarted_and_dropped_independently() -> None:
    adam, lr = TanhAdam.begin(X), 0.05
    expected = [by_torch(x, 9, lr) for x in X]
    index = torch.arange(4)
    made = torch.zeros(4, dtype=torch.int64)
    for step in range(9):
        images = adam.images()
        adam.step(images, gradient(images), lr)
        made += 1
        if step == 2:
            adam.restart(torch.tensor([False, True, False, True]))
            made[[1, 3]] = 0
        if step == 5:
            active = torch.tensor([True, True, False, True])
            adam.select(active)
            index, made = index[active], made[active]
        assert torch.equal(adam.count, made)
        for row, i in enumerate(index.tolist()):
            images = expected[i][int(made[row]) - 1] if made[row] else to_image(to_tanh(X[i]))
            torch.testing.assert_close(adam.images()[row], images, rtol=0, atol=1e-12)
    assert len(adam.w) == len(adam.first_moment) == len(adam.second_moment) == 3


def test_first_step_has_size_lr_at_every_gradient_scale() -> None:
    for scale in (1e-3, 1.0, 1e3):
        adam = TanhAdam.begin(torch.full((1, 3), 0.5, dtype=torch.float64))
        adam.step(adam.images(), torch.tensor([[1.0, -2.0, 0.0]], dtype=torch.float64) * scale, 0.01)
        expected = torch.tensor([[-0.01, 0.01, 0.0]], dtype=torch.float64)
        torch.testing.assert_close(adam.w, expected, rtol=0, atol=1e-6)


@DTYPES
def test_black_and_white_pixels_move_and_stay_finite(dtype: torch.dtype) -> None:
    adam = TanhAdam.begin(torch.tensor([[0.0, 1.0]], dtype=dtype))
    for _ in range(50):
        images = adam.images()
        adam.step(images, torch.tensor([[-1.0, 1.0]], dtype=dtype), 0.3)
    assert adam.images()[0, 0] > 0.1
    assert adam.images()[0, 1] < 0.9
    for _ in range(300):
        images = adam.images()
        adam.step(images, torch.tensor([[1e6, -1e6]], dtype=dtype), 1.0)
    assert adam.w.isfinite().all()
    assert adam.images()[0].tolist() == pytest.approx([0.0, 1.0], abs=1e-6)
    assert adam.images().min() >= 0
    assert adam.images().max() <= 1
