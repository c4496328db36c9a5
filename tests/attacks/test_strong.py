"""The attacks of S-AutoAttack, their order, and that the ensemble is at least as strong as AutoAttack."""

import pytest
import torch
from torch import Tensor, nn

from ctrobust.attacks import APGD, FAB, AutoAttack, Square, Strong, parse
from ctrobust.errors import InputError


def network(classes: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(classes)
        return nn.Sequential(nn.Flatten(), nn.Linear(16, 12), nn.Tanh(), nn.Linear(12, classes)).double().eval()


def examples(classes: int, count: int = 24) -> tuple[Tensor, Tensor]:
    x = torch.rand(count, 1, 4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with torch.no_grad():
        return x, network(classes)(x).argmax(1)


def test_the_attacks_in_their_order() -> None:
    assert Strong(0.1, norm="l2", queries=50, seed=3).attacks() == (
        APGD(0.1, norm="l2", seed=3),
        APGD(0.1, norm="l2", loss="sce(gamma=5)", seed=3),
        APGD(0.1, norm="l2", loss="std", seed=3),
        APGD(0.1, norm="l2", loss="margin", seed=3),
        APGD(0.1, norm="l2", loss="dlr", targets=9, seed=3),
        FAB(0.1, norm="l2", targets=9, seed=3),
        Square(0.1, norm="l2", queries=50, seed=3),
    )


def test_every_attack_of_autoattack_is_among_them() -> None:
    assert set(AutoAttack(8 / 255).attacks()) < set(Strong(8 / 255).attacks())


def test_breaks_whatever_autoattack_breaks() -> None:
    x, y = examples(5)
    strong = Strong(eps=0.04, queries=50).run(network(5), x, y)
    standard = AutoAttack(eps=0.04, queries=50).run(network(5), x, y)
    assert 0 < standard.success.sum() < len(y)
    assert (strong.success | ~standard.success).all()
    with torch.no_grad():
        fooled = network(5)(strong.x_adv).argmax(1) != y
    assert torch.equal(fooled, strong.success)


@pytest.mark.parametrize(("classes", "left_out"), [(2, 3), (3, 1), (4, 0)])
def test_losses_that_need_more_classes_are_left_out(classes: int, left_out: int) -> None:
    x, y = examples(classes, count=6)
    result = Strong(eps=0.02, queries=5).run(network(classes), x, y)
    assert len(result.left_out) == left_out


def test_invalid_fields_are_refused() -> None:
    with pytest.raises(InputError, match="norm must be one of 'linf', 'l2'"):
        parse("strong:eps=0.1,norm=l1")
    with pytest.raises(InputError, match="queries is a whole number of at least 1, got 0"):
        parse("strong:eps=0.1,queries=0")
