"""The attacks of the ensemble, their order, and what is left out for few classes."""

import pytest
import torch
from torch import Tensor, nn

from ctrobust.attacks import APGD, FAB, AutoAttack, Square, parse
from ctrobust.attacks.stages import left_out
from ctrobust.errors import InputError


def network(classes: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(classes)
        return nn.Sequential(nn.Flatten(), nn.Linear(16, 12), nn.Tanh(), nn.Linear(12, classes)).double().eval()


def examples(classes: int, count: int = 12) -> tuple[Tensor, Tensor]:
    x = torch.rand(count, 1, 4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with torch.no_grad():
        return x, network(classes)(x).argmax(1)


def test_the_published_ensembles() -> None:
    eps = 8 / 255
    assert AutoAttack(eps).attacks() == (
        APGD(eps), APGD(eps, loss="dlr", targets=9), FAB(eps, targets=9), Square(eps, queries=5000),
    )  # fmt: skip
    assert AutoAttack(eps, version="plus").attacks() == (
        APGD(eps, restarts=5), APGD(eps, loss="dlr", restarts=5), FAB(eps, restarts=5), Square(eps),
        APGD(eps, loss="dlr", targets=9), FAB(eps, targets=9),
    )  # fmt: skip
    assert AutoAttack(eps, version="rand").attacks() == (APGD(eps, eot=20), APGD(eps, loss="dlr", eot=20))


@pytest.mark.parametrize(
    ("version", "stages"), [("standard", 1 + 9 + 9 + 1), ("plus", 5 + 5 + 5 + 1 + 9 + 9), ("rand", 2)]
)
def test_each_restart_and_target_is_a_stage(version: str, stages: int) -> None:
    attack = parse(f"autoattack:eps=0.1,version={version}")
    assert len(attack.stages()) == stages
    assert all(stage.optional for stage in attack.stages())


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_norm_and_seed_reach_every_attack(norm: str) -> None:
    attack = parse(f"autoattack:eps=0.5,norm={norm},seed=7")
    assert isinstance(attack, AutoAttack)
    for one in attack.attacks():
        assert (one.eps, one.norm, one.seed) == (0.5, norm, 7)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("classes", "missing"),
    [
        (2, ("apgd:eps=0.1,loss=dlr,targets=9 needs 4 classes",)),
        (3, ("apgd:eps=0.1,loss=dlr,targets=9 needs 4 classes",)),
        (4, ()),
    ],
)
def test_attacks_left_out_for_few_classes_are_listed(classes: int, missing: tuple[str, ...]) -> None:
    x, y = examples(classes)
    attack = AutoAttack(eps=0.1, queries=50)
    result = attack.run(network(classes), x, y)
    assert result.left_out == left_out(attack, classes) == missing
    assert result.success.any()
    with torch.no_grad():
        fooled = network(classes)(result.x_adv).argmax(1) != y
    assert torch.equal(fooled, result.success)
    assert (result.x_adv - x).abs().max() <= 0.1 + 1e-12
    rand = AutoAttack(eps=0.1, version="rand").run(network(classes), x, y)
    assert len(rand.left_out) == (classes == 2)


def test_with_two_classes_the_only_target_is_tried_once() -> None:
    x, y = examples(2)
    alone = FAB(eps=1e-6, targets=9).run(network(2), x, y)
    assert torch.equal(alone.backwards, FAB(eps=1e-6, targets=1).run(network(2), x, y).backwards)


def test_breaks_the_union_of_its_attacks_and_stops_at_the_first_success() -> None:
    x, y = examples(5, count=30)
    attack = AutoAttack(eps=0.04, queries=200)
    whole = attack.run(network(5), x, y)
    separate = [one.run(network(5), x, y) for one in attack.attacks()]
    assert 0 < whole.success.sum() < 30
    union = torch.stack([one.success for one in separate]).any(0)
    assert torch.equal(whole.success, union)
    first = separate[0].success
    assert (whole.forwards[first] <= separate[0].forwards[first]).all()
    total = sum(one.backwards for one in separate)
    assert torch.equal(whole.backwards[~whole.success], torch.as_tensor(total)[~whole.success])


def test_invalid_fields_are_refused() -> None:
    with pytest.raises(InputError, match="version must be one of 'standard', 'plus', 'rand'; got 'fast'"):
        parse("autoattack:eps=0.1,version=fast")
    with pytest.raises(InputError, match="norm must be one of 'linf', 'l2'"):
        parse("autoattack:eps=0.1,norm=l1")
    assert str(parse("autoattack:eps=8/255,version=plus")) == "autoattack:eps=8/255,version=plus"
