"""Natural training: the loss of a batch."""

from collections.abc import Callable
from typing import Literal

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ctrobust import losses
from ctrobust.models import Classifier, build
from ctrobust.recipes import RECIPES, Natural, Recipe
from ctrobust.regularizers import set_step
from tests.recipes.halves import halves

N, K = 12, 4
KEYS = torch.arange(100, 100 + N)
X = torch.rand(N, 1, 28, 28, generator=torch.Generator().manual_seed(0))
Y = torch.arange(N) % 10


def network() -> Classifier:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = build("mnistnet", 10, 1, 8).train()
    set_step(model, seed=0, step=0, keys=KEYS, progress=0.0)
    return model


def only_loss(recipe: Recipe, model: Classifier) -> Tensor:
    (loss,) = recipe(model, X, Y, KEYS)
    assert loss.shape == ()
    return loss


def test_one_sample_is_the_mean_cross_entropy() -> None:
    loss = only_loss(Natural(), network())
    torch.testing.assert_close(loss, cross_entropy(network()(X), Y))


def test_one_sample_takes_another_base_loss() -> None:
    loss = only_loss(Natural(loss=losses.focal), network())
    assert torch.equal(loss, losses.focal(network()(X), Y).mean())
    assert loss < only_loss(Natural(), network())


@pytest.mark.parametrize("base", [losses.cross_entropy, losses.focal])
def test_multi_sample_dropout_is_the_mean_over_the_samples(base: Callable[[Tensor, Tensor], Tensor]) -> None:
    logits = network().sample_logits(X, K)
    expected = torch.stack([base(sample, Y) for sample in logits]).mean()
    torch.testing.assert_close(only_loss(Natural(base, samples=K), network()), expected)


@pytest.mark.parametrize("diversity", ["cosine", "pearson"])
@pytest.mark.parametrize("eta", [100.0, 50.0])
def test_with_rho_the_loss_is_mdl_of_the_samples(diversity: Literal["cosine", "pearson"], eta: float) -> None:
    logits = network().sample_logits(X, K)
    expected = losses.mdl(logits, Y, rho=0.7, eta=eta, diversity=diversity).mean()
    loss = only_loss(Natural(samples=K, rho=0.7, eta=eta, diversity=diversity), network())
    assert torch.equal(loss, expected)
    assert loss > only_loss(Natural(samples=K), network())


def test_the_percentile_is_over_the_batches_of_all_processes() -> None:
    logits = network().sample_logits(X, K)
    easy, hard = losses.mask_score(logits, Y).argsort().chunk(2)
    for half, part in zip(halves(), (easy, hard), strict=True):
        model = network()
        set_step(model, seed=0, step=0, keys=KEYS[part], progress=0.0)
        (loss,) = Natural(samples=K, rho=0.7, eta=50.0, processes=half)(model, X[part], Y[part], KEYS[part])
    expected = torch.stack([cross_entropy(sample[hard], Y[hard]) for sample in logits]).mean()
    torch.testing.assert_close(loss, expected)  # the second process holds only examples above the percentile


def test_every_setting_of_mdl_changes_the_loss() -> None:
    values = [
        only_loss(Natural(samples=K, rho=1.0), network()),
        only_loss(Natural(samples=K, rho=0.25), network()),
        only_loss(Natural(samples=K, rho=1.0, eta=50.0), network()),
        only_loss(Natural(samples=K, rho=1.0, diversity="pearson"), network()),
        only_loss(Natural(samples=3, rho=1.0), network()),
    ]
    assert len({value.item() for value in values}) == len(values)


@pytest.mark.parametrize("recipe", [Natural(), Natural(samples=K), Natural(samples=K, rho=1.0)])
def test_gradients_reach_every_parameter(recipe: Natural) -> None:
    model = network()
    only_loss(recipe, model).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().max() > 0, name


def test_nothing_runs_before_the_loss_is_requested_and_one_loss_is_yielded() -> None:
    model = network()
    calls: list[object] = []
    model.body.register_forward_hook(lambda *_: calls.append(None))
    steps = Natural(samples=K, rho=1.0)(model, X, Y, KEYS)
    assert calls == []
    next(steps)
    assert len(calls) == 1
    assert next(steps, None) is None
    assert len(calls) == 1


def test_natural_training_has_no_state() -> None:
    recipe: Recipe = RECIPES["natural"]()
    recipe.end_epoch()
    recipe.load_state_dict({})
    assert recipe.state_dict() == {}
