"""The mask-guided divergence loss."""

from functools import partial
from itertools import combinations
from typing import cast

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import cosine_similarity

from ctrobust.errors import InputError
from ctrobust.losses import (
    LOSSES,
    cross_entropy,
    label_smoothing,
    mask_score,
    mask_threshold,
    mdl,
    online_label_smoothing,
    wrong_similarity,
)
from ctrobust.losses.classes import wrong_classes
from ctrobust.losses.mdl import Diversity

P = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
Q = torch.tensor([[0.4, 0.1, 0.2, 0.3]]).log()
PQ = torch.stack([P, Q])
Y = torch.tensor([0])
DIVERSITIES: list[Diversity] = ["cosine", "pearson"]


def outputs(K: int, N: int, C: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(K * N + C)
    return torch.randn(K, N, C, dtype=dtype, generator=generator), torch.randint(0, C, (N,), generator=generator)


def test_hand_computed() -> None:
    assert mdl(PQ, Y).item() == pytest.approx(1.395802, abs=1e-6)
    assert mdl(PQ, Y, diversity="pearson").item() == pytest.approx(0.808019, abs=1e-6)
    assert mdl(PQ, Y, rho=2.0).item() == pytest.approx(1.395802 + 0.591083, abs=1e-6)


def test_similarity_hand_computed() -> None:
    assert wrong_similarity(PQ, Y).item() == pytest.approx(0.591083, abs=1e-6)
    assert wrong_similarity(PQ, Y, "pearson").item() == pytest.approx(0.003300, abs=1e-6)


@pytest.mark.parametrize("K", [2, 3, 5])
def test_similarity_is_the_mean_over_pairs(K: int) -> None:
    logits_k, y = outputs(K, 6, 5)
    wrong = wrong_classes(logits_k.softmax(-1), y)
    cosine = [cosine_similarity(a, b, dim=-1) for a, b in combinations(wrong, 2)]
    torch.testing.assert_close(wrong_similarity(logits_k, y), torch.stack(cosine).mean(0))
    pearson = [torch.corrcoef(torch.stack(pair))[0, 1] for n in range(6) for pair in combinations(wrong[:, n], 2)]
    expected = (torch.stack(pearson).view(6, -1).mean(-1) + 1) / 2
    torch.testing.assert_close(wrong_similarity(logits_k, y, "pearson"), expected)


@pytest.mark.parametrize("diversity", DIVERSITIES)
@settings(max_examples=50, deadline=None)
@given(rows=st.lists(st.lists(st.floats(-1e4, 1e4, width=32), min_size=5, max_size=5), min_size=2, max_size=5))
def test_similarity_lies_in_the_unit_interval(rows: list[list[float]], diversity: Diversity) -> None:
    similarity = wrong_similarity(torch.tensor(rows).unsqueeze(1), Y, diversity).item()
    assert -1e-5 <= similarity <= 1 + 1e-5


@pytest.mark.parametrize("diversity", DIVERSITIES)
def test_equal_subnetworks_have_similarity_one(diversity: Diversity) -> None:
    logits_k, y = outputs(1, 6, 5)
    torch.testing.assert_close(wrong_similarity(logits_k.expand(4, 6, 5), y, diversity), torch.ones(6).double())


def test_similarity_does_not_underflow_with_the_wrong_probabilities() -> None:
    confident = PQ.clone()
    confident[..., 0] = 500.0
    for diversity in DIVERSITIES:
        torch.testing.assert_close(wrong_similarity(confident, Y, diversity), wrong_similarity(PQ, Y, diversity))


def test_pearson_of_a_constant_vector_and_its_gradient_are_zero() -> None:
    # The third sub-network gives all wrong classes the same probability.
    logits_k = torch.cat([PQ, torch.tensor([[[2.0, 0.1, 0.1, 0.1]]])]).requires_grad_()
    similarity = wrong_similarity(logits_k, Y, "pearson")
    assert similarity.item() == pytest.approx((-0.993399 / 3 + 1) / 2, abs=1e-6)
    (by_logits,) = torch.autograd.grad(similarity.sum(), logits_k)
    assert torch.equal(by_logits[2], torch.zeros(1, 4))
    assert bool(by_logits[:2].abs().sum() > 0)


@pytest.mark.parametrize("base", [*LOSSES.values(), partial(online_label_smoothing, soft_labels=torch.eye(5))])
@pytest.mark.parametrize("K", [1, 2, 4])
def test_rho_zero_is_multi_sample_dropout_bit_for_bit(K: int, base: partial[Tensor]) -> None:
    logits_k, y = outputs(K, 7, 5, torch.float32)
    logits_k.requires_grad_()
    one = mdl(logits_k, y, rho=0.0, eta=70, base=base)
    other = torch.stack([base(logits, y) for logits in logits_k]).mean(0)
    assert torch.equal(one, other)
    assert torch.equal(*(torch.autograd.grad(loss.mean(), logits_k)[0] for loss in (one, other)))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.floats(-1e4, 1e4, width=32), min_size=4, max_size=4), min_size=1, max_size=4))
def test_rho_zero_is_the_mean_of_cross_entropies(rows: list[list[float]]) -> None:
    logits_k = torch.tensor(rows).unsqueeze(1)
    expected = torch.stack([cross_entropy(logits, Y) for logits in logits_k]).mean(0)
    assert torch.equal(mdl(logits_k, Y, rho=0.0), expected)


def test_base_replaces_cross_entropy() -> None:
    logits_k, y = outputs(3, 6, 5)
    expected = torch.stack([label_smoothing(logits, y) for logits in logits_k]).mean(0) + wrong_similarity(logits_k, y)
    torch.testing.assert_close(mdl(logits_k, y, base=label_smoothing), expected)


def test_mask_score_is_minus_log_of_the_mean_probability() -> None:
    logits_k, y = outputs(3, 6, 5)
    torch.testing.assert_close(mask_score(logits_k, y), -logits_k.softmax(-1).mean(0)[torch.arange(6), y].log())
    assert not mask_score(logits_k.requires_grad_(), y).requires_grad


def test_mask_score_is_finite_where_the_mean_probability_underflows() -> None:
    logits_k = torch.tensor([0.0, 300.0, 0.0]).expand(4, 1, 3)
    assert mask_score(logits_k, Y).item() == pytest.approx(300)


@pytest.mark.parametrize("N", [1, 2, 11, 101, 128])
@pytest.mark.parametrize("eta", [0, 12.5, 50, 70, 90, 99.9, 100])
def test_threshold_is_the_interpolated_percentile(N: int, eta: float) -> None:
    score = torch.rand(N, dtype=torch.float64, generator=torch.Generator().manual_seed(N))
    torch.testing.assert_close(mask_threshold(score, eta), score.quantile(eta / 100, interpolation="linear"))


@pytest.mark.parametrize("eta", [0, 10, 30, 70, 90, 100])
def test_threshold_at_a_whole_rank_is_exactly_that_score(eta: int) -> None:
    score = torch.rand(101, generator=torch.Generator().manual_seed(0))
    assert int((score <= mask_threshold(score, eta)).sum()) == eta + 1


@pytest.mark.parametrize(("eta", "kept"), [(100, 128), (90, 115), (80, 102), (70, 89)])
def test_the_mask_keeps_eta_percent_of_the_batch(eta: float, kept: int) -> None:
    logits_k, y = outputs(4, 128, 10)
    ce = mdl(logits_k, y, rho=0.0)
    masked, unmasked = mdl(logits_k, y, eta=eta), mdl(logits_k, y)
    dropped = masked == ce
    assert int((~dropped).sum()) == kept
    assert torch.equal(masked[~dropped], unmasked[~dropped])
    score = mask_score(logits_k, y)
    assert kept == 128 or bool(score[~dropped].max() < score[dropped].min())


def test_equal_scores_are_all_kept() -> None:
    logits_k = PQ.expand(2, 10, 4)
    y = torch.zeros(10, dtype=torch.int64)
    assert torch.equal(mdl(logits_k, y, eta=30), mdl(logits_k, y))


def test_the_mask_carries_no_gradient() -> None:
    logits_k, y = outputs(3, 10, 5)
    logits_k.requires_grad_()
    kept = mask_score(logits_k, y) <= mask_threshold(mask_score(logits_k, y), 60)
    (masked,) = torch.autograd.grad(mdl(logits_k, y, eta=60).sum(), logits_k)
    expected = mdl(logits_k, y, rho=0.0) + wrong_similarity(logits_k, y) * kept
    torch.testing.assert_close(masked, torch.autograd.grad(expected.sum(), logits_k)[0])


def test_a_given_threshold_makes_shards_agree_with_the_whole_batch() -> None:
    logits_k, y = outputs(4, 12, 5)
    hardest_last = mask_score(logits_k, y).argsort()
    logits_k, y = logits_k[:, hardest_last], y[hardest_last]
    whole = mdl(logits_k, y, eta=70)
    halves = [(logits_k[:, :6], y[:6]), (logits_k[:, 6:], y[6:])]
    T = mask_threshold(torch.cat([mask_score(*half) for half in halves]), 70)
    for threshold in (T, float(T)):
        assert torch.equal(torch.cat([mdl(*half, threshold=threshold) for half in halves]), whole)
    assert not torch.equal(torch.cat([mdl(*half, eta=70) for half in halves]), whole)


@pytest.mark.parametrize(
    ("logits_k", "message"),
    [
        (torch.zeros(1, 1, 4), r"needs at least 2 sub-networks; got 1, in logits_k of shape \(1, 1, 4\)"),
        (torch.zeros(2, 1, 2), r"needs at least 3 classes; got 2, in logits_k of shape \(2, 1, 2\)"),
        (
            torch.zeros(1, 4),
            r"logits_k must be a floating tensor of shape \(K, N, C\); got .* of shape \(1, 4\)",
        ),
        (torch.zeros(0, 1, 4), "sub-networks; got 0"),
    ],
)
def test_impossible_outputs_are_refused(logits_k: Tensor, message: str) -> None:
    with pytest.raises(InputError, match=message):
        mdl(logits_k, Y)


def test_rho_zero_accepts_two_classes() -> None:
    assert mdl(torch.zeros(2, 1, 2), Y, rho=0.0).item() == pytest.approx(0.693147, abs=1e-6)


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(InputError, match="rho must be a finite number of at least 0; got -1"):
        mdl(PQ, Y, rho=-1)
    with pytest.raises(InputError, match="eta must be a finite number between 0 and 100; got 101"):
        mdl(PQ, Y, eta=101)
    with pytest.raises(InputError, match="diversity must be one of 'cosine', 'pearson'; got 'euclid'"):
        mdl(PQ, Y, diversity=cast("Diversity", "euclid"))
    with pytest.raises(InputError, match=r"base must return one value per example, shape \(2,\); got \(\)"):
        mdl(PQ, Y, base=lambda logits, y: cross_entropy(logits, y).mean())
    with pytest.raises(InputError, match=r"score must have shape \(N,\), N >= 1; got \(0,\)"):
        mask_threshold(torch.empty(0), 90)
