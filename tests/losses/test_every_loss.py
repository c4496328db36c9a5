"""Properties of every loss: finite, differentiable, one value per example, invariant where it should be."""

from collections.abc import Callable
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import ctrobust.losses
from ctrobust.errors import InputError
from ctrobust.losses import (
    LOSSES,
    cross_entropy,
    dlr,
    dlr_targeted,
    focal,
    kl,
    label_relaxation,
    label_smoothing,
    log_std,
    margin,
    mdl,
    online_label_smoothing,
    probability_margin_log_odds,
    sce,
    skl,
    std,
    wrong_similarity,
)
from ctrobust.specs import NaturalSpec

Loss = Callable[[Tensor, Tensor], Tensor]


def other(logits: Tensor) -> Tensor:
    """A more confident second output of the network, exact in every precision."""
    return 2 * logits


def subnetworks(logits: Tensor) -> Tensor:
    return torch.stack([logits, other(logits), -logits])


def soft_labels(C: int) -> Tensor:
    return 0.8 * torch.eye(C) + 0.2 / C


# Each loss as a function of one output, and the smallest number of classes it accepts.
TABLE: dict[str, tuple[Loss, int]] = {
    "cross_entropy": (cross_entropy, 2),
    "std": (std, 3),
    "log_std": (log_std, 3),
    "sce": (sce, 3),
    "sce gamma=5": (lambda z, y: sce(z, y, gamma=5.0), 3),
    "sce gamma=0": (lambda z, y: sce(z, y, gamma=0.0), 2),
    "kl": (lambda z, _: kl(z, other(z)), 2),
    "kl same": (lambda z, _: kl(z, z), 2),
    "kl opposite": (lambda z, _: kl(z, -z), 2),
    "skl": (lambda z, y: skl(z, other(z), y), 3),
    "skl opposite": (lambda z, y: skl(z, -z, y), 3),
    "skl clean": (lambda z, y: skl(z, other(z), y, std_at="clean"), 3),
    "skl gamma=0": (lambda z, y: skl(z, other(z), y, gamma=0.0), 2),
    "mdl": (lambda z, y: mdl(subnetworks(z), y), 3),
    "mdl pearson": (lambda z, y: mdl(subnetworks(z), y, diversity="pearson"), 3),
    "mdl eta=50": (lambda z, y: mdl(subnetworks(z), y, eta=50), 3),
    "mdl rho=0": (lambda z, y: mdl(subnetworks(z), y, rho=0), 2),
    "wrong_similarity": (lambda z, y: wrong_similarity(subnetworks(z), y), 3),
    "dlr": (dlr, 3),
    "dlr_targeted": (lambda z, y: dlr_targeted(z, y, (y + 1) % z.shape[-1]), 4),
    "margin": (margin, 2),
    "probability_margin_log_odds": (probability_margin_log_odds, 2),
    "label_smoothing": (label_smoothing, 2),
    "focal": (focal, 2),
    "focal gamma=.5": (lambda z, y: focal(z, y, gamma=0.5), 2),
    "label_relaxation": (label_relaxation, 2),
    "online_label_smoothing": (lambda z, y: online_label_smoothing(z, y, soft_labels(z.shape[-1])), 2),
}
# Losses whose gradients grow as one over the differences of the logits, beyond the range of float16.
SCALE_FREE = {"log_std", "mdl pearson", "dlr", "dlr_targeted"}

DEGENERATE: dict[str, Callable[[Tensor], Tensor]] = {
    "zero": torch.zeros_like,
    "uniform": lambda z: torch.full_like(z, 0.1),
    "uniform and large": lambda z: torch.full_like(z, -1e4),
    "untrained": lambda z: 1e-6 * z,
    "tiny": lambda z: 1e-30 * z,
    "saturated": lambda z: torch.where(z == z.amax(-1, keepdim=True), 1e4, -1e4),
    "all on class 0": lambda z: torch.where(torch.arange(z.shape[-1]) == 0, 1e4, torch.full_like(z, -1e4)),
    "class 0 impossible": lambda z: torch.where(torch.arange(z.shape[-1]) == 0, -1e4, z),
    "two tied": lambda z: torch.where(torch.arange(z.shape[-1]) < 2, 1e4, z),
    "confident": lambda z: torch.where(torch.arange(z.shape[-1]) == 0, z + 200, z),
}


def rows(*without: str) -> pytest.MarkDecorator:
    kept = {name: row for name, row in TABLE.items() if name not in without}
    return pytest.mark.parametrize(("loss", "classes"), kept.values(), ids=kept.keys())


def batch(N: int, C: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(100 * N + C)
    return torch.randn(N, C, dtype=torch.float64, generator=generator), torch.arange(N) % C


def value_and_gradient(loss: Loss, logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    logits = logits.clone().requires_grad_()
    value = loss(logits, y)
    return value.detach(), torch.autograd.grad(value.sum(), logits)[0]


def test_every_public_loss_has_a_row() -> None:
    public = set(ctrobust.losses.__all__) - {"LOSSES", "ce", "pmargin", "mask_score", "mask_threshold"}
    assert public == {name.split()[0] for name in TABLE}
    assert all(callable(getattr(ctrobust.losses, name)) for name in public)


def test_short_names() -> None:
    assert ctrobust.losses.ce is cross_entropy
    assert ctrobust.losses.pmargin is probability_margin_log_odds


def test_the_registry_names_the_functions_and_the_spec_offers_all_of_them() -> None:
    assert {name: getattr(ctrobust.losses, name.replace("-", "_")) for name in LOSSES} == LOSSES
    offered = get_args(NaturalSpec.model_fields["loss"].annotation)
    assert sorted(offered) == sorted([*LOSSES, "online-label-smoothing"])


@rows()
@pytest.mark.parametrize("make", DEGENERATE.values(), ids=DEGENERATE.keys())
def test_values_and_gradients_are_finite(loss: Loss, classes: int, make: Callable[[Tensor], Tensor]) -> None:
    for dtype in (torch.float32, torch.float64):
        for N, C in [(1, classes), (7, classes + 1), (12, 10)]:
            logits, y = batch(N, C)
            value, gradient = value_and_gradient(loss, make(logits).to(dtype), y)
            assert value.shape == (N,)
            assert bool(value.isfinite().all()), value
            assert bool(gradient.isfinite().all()), gradient


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", TABLE)
def test_half_precision_is_computed_in_float32(name: str, dtype: torch.dtype) -> None:
    loss, classes = TABLE[name]
    for make in DEGENERATE.values():
        logits, y = batch(6, classes + 2)
        half = make(logits).to(dtype)
        value, gradient = value_and_gradient(loss, half, y)
        assert value.dtype == torch.float32
        assert torch.equal(value, loss(half.float(), y))
        assert gradient.dtype == dtype
        assert (dtype == torch.float16 and name in SCALE_FREE) or bool(gradient.isfinite().all()), gradient


@rows()
def test_gradients_pass_gradcheck(loss: Loss, classes: int) -> None:
    for N, C in [(1, classes), (4, 6)]:
        logits, y = batch(N, C)
        assert torch.autograd.gradcheck(lambda z, y=y: loss(z, y), (logits.requires_grad_(),))


@rows()
def test_autocast_changes_nothing(loss: Loss, classes: int) -> None:
    logits, y = batch(6, classes + 2)
    expected = loss(logits.float(), y)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(loss(logits.float(), y), expected)


# Without mdl eta=50, whose mask compares the examples of a batch.
@rows("mdl eta=50")
def test_an_examples_loss_does_not_depend_on_the_batch(loss: Loss, classes: int) -> None:
    logits, y = batch(5, classes + 2)
    alone = torch.cat([loss(logits[n : n + 1], y[n : n + 1]) for n in range(5)])
    torch.testing.assert_close(loss(logits, y), alone)
    assert loss(logits[:0], y[:0]).shape == (0,)


# Logits on a grid, so that a shift is exact and equal logits stay equal.
GRID = st.lists(st.lists(st.integers(-160, 160).map(lambda i: i / 8), min_size=6, max_size=6), min_size=3, max_size=3)


@rows("mdl eta=50")
@settings(max_examples=15, deadline=None)
@given(grid=GRID, shift=st.integers(-100, 100))
def test_a_shift_of_the_logits_changes_nothing(loss: Loss, classes: int, grid: list[list[float]], shift: int) -> None:
    assert classes <= 6
    logits, y = torch.tensor(grid, dtype=torch.float64), torch.tensor([0, 3, 5])
    torch.testing.assert_close(loss(logits + shift, y), loss(logits, y), rtol=1e-9, atol=1e-9)


# Without the targeted loss, whose target is one of the wrong classes.
@rows("mdl eta=50", "dlr_targeted")
@settings(max_examples=15, deadline=None)
@given(grid=GRID, order=st.permutations(range(1, 6)))
def test_the_order_of_the_wrong_classes_changes_nothing(
    loss: Loss, classes: int, grid: list[list[float]], order: list[int]
) -> None:
    assert classes <= 6
    logits, y = torch.tensor(grid, dtype=torch.float64), torch.zeros(3, dtype=torch.int64)
    torch.testing.assert_close(loss(logits[:, [0, *order]], y), loss(logits, y), rtol=1e-9, atol=1e-9)


@rows()
def test_too_few_classes_are_refused(loss: Loss, classes: int) -> None:
    logits, y = batch(3, classes - 1)
    with pytest.raises(InputError, match=f"this loss needs at least {classes} classes; got {classes - 1}, in "):
        loss(logits, y)


@rows("kl", "kl same", "kl opposite")
def test_impossible_labels_are_refused(loss: Loss, classes: int) -> None:
    logits, y = batch(3, classes)
    with pytest.raises(InputError, match=r"y must be an integer tensor of shape \(3,\), .*; got .* of shape \(2,\)"):
        loss(logits, y[:2])
    with pytest.raises(InputError, match=rf"y must lie in 0\.\.{classes - 1} for {classes} classes; got {classes}"):
        loss(logits, torch.tensor([0, classes, 1]))
