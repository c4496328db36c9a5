"""TRADES, against a reference implementation."""

from collections.abc import Sequence
from typing import Literal

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, kl_div, log_softmax, softmax

from ctrobust import draws, losses
from ctrobust.errors import InputError
from ctrobust.recipes import Trades
from tests.recipes.descent import (
    EPS,
    Batch,
    batches,
    in_ball_and_box,
    network,
    record_passes,
    same,
    statistics,
)  # fmt: skip
from tests.recipes.formulas import Pair, attacked_std, kl, trades

BASELINE = trades()


def reference(
    model: nn.Module, sgd: torch.optim.SGD, data: Sequence[Batch], *, eps: float = EPS, steps: int = 10,
    step_size: float = 0.007, attack: Pair = kl, descent: Pair = BASELINE, seed: int = 0,
) -> None:  # fmt: skip
    """The published code, but with one forward pass of the clean images in the descent."""
    for batch, (x, y, keys) in enumerate(data):
        model.eval()
        adv = x + 0.001 * draws.normal(keys, draws.stream(seed, "start", batch), tuple(x.shape[1:])).to(x)
        clean_logits = torch.empty(0) if attack is attacked_std else model(x).detach()
        for _ in range(steps):
            adv = adv.detach().requires_grad_()
            attack(model(adv), clean_logits, y).sum().backward()
            assert adv.grad is not None
            adv = adv.detach() + step_size * torch.sign(adv.grad)
            adv = torch.clamp(torch.min(torch.max(adv, x - eps), x + eps), 0, 1)
        model.train()
        sgd.zero_grad()
        clean_logits = model(x)
        descent(model(adv.detach()), clean_logits, y).mean().backward()
        sgd.step()


@pytest.mark.parametrize("std_at", ["adv", "clean"])
def test_the_loss_is_sce_plus_beta_times_skl(std_at: Literal["adv", "clean"]) -> None:
    model, (x, y, keys) = network(), batches()[0]
    passes = record_passes(model)
    (loss,) = Trades(beta=2.0, gamma=3.0, std_at=std_at)(model, x, y, keys)
    clean_logits, logits = network()(x), network()(passes.inputs[-1])
    expected = losses.sce(clean_logits, y, gamma=3.0) + 2.0 * losses.skl(logits, clean_logits, y, 3.0, std_at)
    torch.testing.assert_close(loss, expected.mean())


def test_loss_std_replaces_sce_and_skl() -> None:
    model, (x, y, keys) = network(), batches()[0]
    passes = record_passes(model)
    (loss,) = Trades(beta=2.0, loss="std")(model, x, y, keys)
    assert len(passes.inputs) == 12  # the attack needs no clean output
    expected = losses.std(network()(x), y) + 2.0 * losses.std(network()(passes.inputs[-1]), y)
    torch.testing.assert_close(loss, expected.mean())


def test_the_attack_runs_in_eval_mode_and_the_descent_makes_two_passes_in_training_mode() -> None:
    model, (x, y, keys) = network(), batches()[0]
    passes = record_passes(model)
    (loss,) = Trades()(model, x, y, keys)
    assert passes.training == [False] * 11 + [True] * 2
    assert passes.parameter_gradients == [False] * 11 + [True] * 2
    assert [len(seen) for seen in passes.inputs] == [8] * 13  # clean and attacked images are never one batch
    assert torch.equal(passes.inputs[11], x)
    assert all(module.num_batches_tracked == 2 for module in model.modules() if isinstance(module, nn.BatchNorm2d))
    by_hand = network()
    by_hand(x)
    by_hand(passes.inputs[12])
    assert same(model.state_dict(), by_hand.state_dict())
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_the_second_clean_pass_trains_as_the_published_code_does() -> None:
    model, published = network(), network()
    passes = record_passes(model)
    ((x, y, keys),) = batches(sizes=(8,))
    (loss,) = Trades(second_clean_pass=True)(model, x, y, keys)
    loss.backward()
    adv = passes.inputs[12]
    loss_natural = cross_entropy(published(x), y)
    log_p, q = log_softmax(published(adv), 1), softmax(published(x), 1)
    expected = loss_natural + 6.0 * kl_div(log_p, q, reduction="batchmean")
    expected.backward()
    torch.testing.assert_close(loss, expected)
    for one, two in zip(model.parameters(), published.parameters(), strict=True):
        torch.testing.assert_close(one.grad, two.grad)
    assert same(statistics(model), statistics(published))


def test_the_second_clean_pass_changes_the_running_statistics_but_not_the_loss() -> None:
    found = []
    for second in (False, True):
        model, (x, y, keys) = network(), batches()[0]
        passes = record_passes(model)
        (loss,) = Trades(gamma=2.0, second_clean_pass=second)(model, x, y, keys)
        found.append((loss, statistics(model), passes))
    (one, once, single), (two, twice, double) = found
    assert double.training == [False] * 11 + [True] * 3
    assert torch.equal(double.inputs[11], x)
    assert torch.equal(double.inputs[12], single.inputs[12])
    assert torch.equal(double.inputs[13], x)
    torch.testing.assert_close(one, two)  # batch statistics are the same in both clean passes
    assert not same(once, twice)


def test_the_attack_starts_near_the_image_and_each_iterate_is_in_ball_and_box() -> None:
    model, (x, y, keys) = network(), batches()[0]
    passes = record_passes(model)
    next(iter(Trades()(model, x, y, keys)))
    offset = passes.inputs[1] - x
    assert 0 < offset.abs().max() < 0.006
    assert offset.std().item() == pytest.approx(0.001, rel=0.1)
    assert all(in_ball_and_box(seen, x) for seen in passes.inputs[2:])
    moves = [
        (after - before).abs().max() for before, after in zip(passes.inputs[2:11], passes.inputs[3:11], strict=False)
    ]
    assert all(0 < move <= 0.007 + 1e-6 for move in moves)


class Table(nn.Module):
    """Two rows of logits, one for clean images (all zero) and one for attacked ones."""

    def __init__(self) -> None:
        super().__init__()
        self.clean = nn.Parameter(torch.tensor([[0.3, -0.2, 0.1, 0.5]]))
        self.attacked = nn.Parameter(torch.tensor([[0.1, 0.9, -0.4, 0.2]]))

    def forward(self, x: Tensor) -> Tensor:
        clean = (x == 0).flatten(1).all(1, keepdim=True)
        return torch.where(clean, self.clean, self.attacked + 0.0 * x.flatten(1).sum(1, keepdim=True))

    def sample_logits(self, x: Tensor, k: int) -> Tensor:
        return self.forward(x).expand(k, -1, -1)


@pytest.mark.parametrize("gamma", [0.0, 3.0])
def test_the_gradient_flows_through_both_outputs(gamma: float) -> None:
    model, y = Table(), torch.tensor([1])
    (loss,) = Trades(gamma=gamma)(model, torch.zeros(1, 1, 2, 2), y, torch.arange(1))
    loss.backward()
    clean, attacked = (one.detach().clone().requires_grad_() for one in (model.clean, model.attacked))
    q, p = clean.softmax(1), attacked.softmax(1)

    def factor(probabilities: Tensor) -> Tensor:
        return (gamma * probabilities[0, [0, 2, 3]].std()).exp()

    expected = -factor(q) * q[0, 1].log() + 6.0 * factor(p) * (q * (q.log() - p.log())).sum()
    expected.backward()
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(model.clean.grad, clean.grad)
    torch.testing.assert_close(model.attacked.grad, attacked.grad)
    alone = model.clean.detach().clone().requires_grad_()
    losses.sce(alone, y, gamma=gamma).sum().backward()
    assert alone.grad is not None
    assert model.clean.grad is not None
    assert (model.clean.grad - alone.grad).abs().max() > 0.01  # the divergence contributes


def test_with_std_at_clean_the_iterates_are_those_of_kl() -> None:
    found = {}
    x, y, keys = batches(sizes=(16,))[0]
    for name, recipe in (
        ("kl", Trades()),
        ("clean", Trades(gamma=5.0, std_at="clean")),
        ("adv", Trades(gamma=5.0)),
    ):
        model = network().double()
        passes = record_passes(model)
        next(iter(recipe(model, x.double(), y, keys)))
        found[name] = passes.inputs[1:11]
    assert all(map(torch.equal, found["kl"], found["clean"]))
    assert not torch.equal(found["kl"][-1], found["adv"][-1])


def test_an_unknown_loss_is_refused() -> None:
    with pytest.raises(InputError, match="loss must be one of 'skl', 'std'; got 'sce'"):
        Trades(loss="sce")  # type: ignore[arg-type]
