"""Robustness curves: a linear network's minimal radii are known exactly, and no curve ever rises."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ctrobust.attacks import FGSM, PGD, Attack
from ctrobust.errors import InputError
from ctrobust.evaluation import StateArrays, evaluate, robustness_curve
from ctrobust.outcomes import RobustnessCurve

RADII = [0.02, 0.04, 0.06, 0.08, 0.1]


class Linear(nn.Module):
    """Two classes whose logits differ by w . (x - 0.5); the boundary is |w . (x - 0.5)| / |w|_1 away in linf."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.linspace(-1, 1, 16, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        score = (x.flatten(1) - 0.5) @ self.w
        return torch.stack([-score, score], 1)


@pytest.fixture
def examples() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = 0.3 + 0.4 * torch.rand(40, 1, 4, 4, generator=generator, dtype=torch.float64)
    y = ((x.flatten(1) - 0.5) @ Linear().w > 0).long().detach()
    y[:5] = 1 - y[:5]  # five examples are misclassified
    return x, y


@pytest.fixture
def exact(examples: tuple[Tensor, Tensor]) -> Tensor:
    w = Linear().w.detach()
    return ((examples[0].flatten(1) - 0.5) @ w).abs() / w.abs().sum()


@pytest.mark.parametrize("attack", [FGSM(0.1), PGD(0.1, steps=10), "apgd:eps=0.1,steps=10"])
def test_the_curve_of_a_linear_network_is_exact(
    examples: tuple[Tensor, Tensor], exact: Tensor, attack: Attack | str
) -> None:
    curve = robustness_curve(Linear(), examples, attack, RADII)
    correct = torch.arange(40) >= 5
    expected = [float((correct & (exact > radius)).double().mean()) for radius in RADII]
    assert curve.robust_accuracies == pytest.approx(expected)
    assert len(set(expected)) > 2
    assert curve.accuracy == 35 / 40
    assert (curve.broken_at[:5] == 0).all()
    assert (curve.robust_to[:5] == -1).all()


def test_bisection_finds_the_minimal_radius(examples: tuple[Tensor, Tensor], exact: Tensor) -> None:
    coarse, fine = (
        robustness_curve(Linear(), examples, PGD(0.1, steps=10), RADII, bisections=halvings) for halvings in (0, 6)
    )
    broken = np.isfinite(fine.broken_at) & (fine.robust_to >= 0)
    assert broken.sum() > 10
    widths = (fine.broken_at - fine.robust_to)[broken]
    np.testing.assert_allclose(widths, 0.02 / 2**6)
    distances = exact.numpy()[broken]
    assert (fine.robust_to[broken] <= distances + 1e-9).all()
    assert (distances <= fine.broken_at[broken] + 1e-9).all()
    assert fine.robust_accuracies == coarse.robust_accuracies
    low, high = fine.minimal_radius(0.25)
    assert low < np.quantile(exact[5:].numpy(), 0.25, method="inverted_cdf") <= high + 1e-9


def network() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return nn.Sequential(nn.Flatten(), nn.Linear(16, 24), nn.Tanh(), nn.Linear(24, 5)).double().eval()


def batch(count: int = 30) -> tuple[Tensor, Tensor]:
    x = torch.rand(count, 1, 4, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    with torch.no_grad():
        return x, network()(x).argmax(1)


@pytest.mark.parametrize("attack", ["fgsm:eps=0.1", "pgd:eps=0.1,steps=5", "square:eps=0.1,queries=60", "fab:eps=0.1"])
def test_a_curve_never_rises_and_is_at_least_as_strong_as_its_first_radius(attack: str) -> None:
    curve = robustness_curve(network(), batch(), attack, [0.05, 0.1, 0.2, 0.3])
    assert list(curve.robust_accuracies) == sorted(curve.robust_accuracies, reverse=True)
    alone = evaluate(network(), batch(), attack.replace("eps=0.1", "eps=0.05"))
    assert curve.robust_accuracies[0] == alone.robust_accuracy
    assert curve.robust_accuracies[-1] < curve.robust_accuracies[0]


def test_the_curve_does_not_depend_on_the_batch_size() -> None:
    one, other = (
        robustness_curve(network(), batch(), "pgd:eps=0.1,steps=5", RADII, bisections=2, chunk=chunk)
        for chunk in (7, 30)
    )
    np.testing.assert_array_equal(one.broken_at, other.broken_at)
    np.testing.assert_array_equal(one.robust_to, other.robust_to)


class StoppedError(Exception):
    pass


class MemoryStore:
    """Keeps the outcomes of batches, and fails when a number of them is reached."""

    def __init__(self) -> None:
        self.batches: list[StateArrays] = []
        self.last = 2

    def load(self) -> tuple[list[StateArrays], dict[str, StateArrays]]:
        return list(self.batches), {}

    def append(self, batch: str, outcomes: StateArrays) -> None:
        assert batch == str(outcomes["index"][0])
        if len(self.batches) == self.last:
            raise StoppedError
        self.batches.append(outcomes)

    def save_resume_state(self, batch: str, arrays: StateArrays) -> None:
        raise AssertionError((batch, arrays))


def test_a_curve_resumes_after_the_batches_that_are_stored() -> None:
    store, attack = MemoryStore(), "pgd:eps=0.1,steps=5"
    with pytest.raises(StoppedError):
        robustness_curve(network(), batch(), attack, RADII, chunk=8, store=store)
    store.last = 4
    resumed = robustness_curve(network(), batch(), attack, RADII, chunk=8, store=store)
    assert len(store.batches) == 4
    whole = robustness_curve(network(), batch(), attack, RADII, chunk=8)
    for name, array in whole.arrays().items():
        np.testing.assert_array_equal(array, resumed.arrays()[name], name)


def test_arrays_and_back() -> None:
    curve = robustness_curve(network(), batch(), "fgsm:eps=0.1", RADII)
    again = RobustnessCurve.from_arrays(curve.attack, curve.arrays())
    assert again.summary() == curve.summary()
    assert curve.summary()["minimal_radius_quantiles"]["0.9"][0] >= 0
    with pytest.raises(InputError, match="a curve holds"):
        RobustnessCurve.from_arrays("fgsm", {"radii": np.array(RADII)})
    with pytest.raises(InputError, match="positive and rise"):
        RobustnessCurve.from_arrays("fgsm", {**curve.arrays(), "radii": np.array(RADII[::-1])})


@pytest.mark.parametrize("radii", [[], [0.1, 0.1], [0.2, 0.1], [0.0, 0.1]])
def test_radii_that_do_not_rise_are_refused(radii: list[float]) -> None:
    with pytest.raises(InputError, match="the radii of a curve are positive and rise"):
        robustness_curve(network(), batch(4), "fgsm:eps=0.1", radii)


def test_negative_bisections_and_quantiles_are_refused() -> None:
    with pytest.raises(InputError, match="bisections is at least 0"):
        robustness_curve(network(), batch(4), "fgsm:eps=0.1", RADII, bisections=-1)
    with pytest.raises(InputError, match="strictly between 0 and 1"):
        robustness_curve(network(), batch(4), "fgsm:eps=0.1", RADII).minimal_radius(1.0)
