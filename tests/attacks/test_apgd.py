"""APGD against closed forms of linear models; its passes, stages, targets and field checks."""

import copy
import math

import pytest
import torch
from torch import Tensor, nn

from ctrobust import losses
from ctrobust.attacks import APGD, PGD, parse
from ctrobust.attacks.attack_losses import Loss
from ctrobust.attacks.attack_state import AttackState
from ctrobust.errors import InputError
from ctrobust.specs.attack_fields import Norm
from tests.attacks.apgd_states import ONE, Recorded, images, net, plain, recorded


def problem(C: int) -> tuple[nn.Sequential, Tensor, Tensor, Tensor]:
    """A linear model whose strongest wrong class is 1; images; their labels, all 0; and w_1 - w_0."""
    model = net(C, C, linear=True, lead=0.0)
    layer = model[-1]
    assert isinstance(layer, nn.Linear)
    layer.weight.data /= 5
    layer.weight.data[1] = torch.tensor([0.6, -0.9] * 6, dtype=ONE)
    layer.weight.data[0] = torch.tensor([-0.4, 0.1, 0.0, 0.2] * 3, dtype=ONE)
    layer.bias.data = torch.tensor([0.9, 0.0] + [-60.0] * (C - 2), dtype=ONE)
    return model, images(40, 5), torch.zeros(40, dtype=torch.int64), (layer.weight[1] - layer.weight[0]).detach()


CASES: list[tuple[int, str | Loss]] = [
    (2, "ce"), (2, "margin"), (3, "std"), (3, "dlr"), (6, "ce"), (6, "sce(gamma=5)"), (6, "std"), (6, "dlr"),
    (6, "margin"), (6, plain),
]  # fmt: skip


@pytest.mark.parametrize(("C", "loss"), CASES)
def test_linf_success_if_and_only_if_the_best_corner_is_misclassified(C: int, loss: str | Loss) -> None:
    model, x, y, direction = problem(C)
    best_logits = model((x + 0.1 * direction.sign().view(1, 3, 4)).clamp(0, 1)).detach()
    result = APGD(0.1, steps=20, loss=loss).run(model, x, y)
    assert torch.equal(result.success, best_logits[:, 1] > best_logits[:, 0])
    assert 0.1 < result.success.double().mean() < 0.9
    assert torch.equal(model(result.x_adv).argmax(1) != y, result.success)
    corner = (x + 0.1 * direction.sign().view(1, 3, 4)).clamp(0, 1)[~result.success]
    torch.testing.assert_close(result.x_adv[~result.success], corner, rtol=0, atol=1e-15)


@pytest.mark.parametrize(("C", "loss"), CASES)
def test_l2_success_begins_at_the_distance_to_the_boundary(C: int, loss: str | Loss) -> None:
    model, x, y, direction = problem(C)
    x = 0.35 + 0.3 * x
    logits = model(x).detach()
    distance = (logits[:, 0] - logits[:, 1]) / direction.norm()
    i = int(((distance > 0.3) & (distance < 0.5)).nonzero()[0])
    for factor, fooled in ((1 - 1e-3, False), (1 + 1e-3, True)):
        attack = APGD(distance[i].item() * factor, steps=30, loss=loss, norm="l2")
        result = attack.run(model, x[i : i + 1], y[i : i + 1])
        assert result.success.tolist() == [fooled]
        assert (result.x_adv - x[i]).norm() <= attack.eps * (1 + 1e-12)
        best = x[i] + (attack.eps * direction / direction.norm()).view(1, 3, 4)
        torch.testing.assert_close(result.x_adv[0], best, rtol=0, atol=2e-2 if fooled else 1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_images_are_in_ball_and_box(norm: Norm, dtype: torch.dtype) -> None:
    x, y = images(16).to(dtype), torch.arange(16) % 5
    x[:4] = x[:4].round()
    model = net(3, lead=0.0).to(dtype)
    for eps in (0.0, 1e-6, 8 / 255, 0.3, 1.0):
        for loss in ("ce", "kl", "std"):
            result = APGD(eps, steps=12, loss=loss, norm=norm).run(model, x, y)
            assert (result.x_adv.dtype, result.x_adv.shape) == (x.dtype, x.shape)
            assert result.x_adv.min() >= 0
            assert result.x_adv.max() <= 1
            offset = (result.x_adv.double() - x.double()).flatten(1)
            length = offset.abs().amax(1) if norm == "linf" else offset.norm(dim=1)
            assert length.max() <= eps + 4 * torch.finfo(dtype).eps
            assert torch.equal(result.success, model(result.x_adv).argmax(1) != y)
            assert result.success.any()


@pytest.mark.parametrize(("loss", "norm"), [("ce", "linf"), ("std", "linf"), ("kl", "linf"), ("dlr", "l2")])
def test_outcomes_do_not_depend_on_the_batch(
    network: nn.Sequential, digits: tuple[Tensor, Tensor], loss: str, norm: Norm
) -> None:
    (x, y), keys = (stage[:60] for stage in digits), torch.arange(60) * 3
    attack = APGD(0.06 if norm == "linf" else 0.5, steps=10, loss=loss, norm=norm)
    whole = attack.run(network, x, y, keys)
    assert 0.1 < whole.success.double().mean() < 0.9
    some = torch.randperm(60, generator=torch.Generator().manual_seed(1))
    groups = (*torch.split(some, 25), some[:7], some[7:8], (~whole.success).nonzero()[:, 0])
    for index in groups:
        stage = attack.run(network, x[index], y[index], keys[index])
        torch.testing.assert_close(stage.x_adv, whole.x_adv[index], rtol=0, atol=0 if norm == "linf" else 1e-9)
        for name in ("success", "forwards", "backwards"):
            assert torch.equal(getattr(stage, name), getattr(whole, name)[index]), name


def test_first_misclassified_iterate_is_returned(network: nn.Sequential, digits: tuple[Tensor, Tensor]) -> None:
    x, y = digits[0][:40], digits[1][:40]
    attack, steps_needed = APGD(0.06, steps=9), set()
    whole = attack.run(network, x, y)
    for i in range(40):
        record = Recorded(network)
        state = AttackState(record, x[i : i + 1], y[i : i + 1], torch.tensor([i]))
        attack.run_stage(state, attack.stages()[0])
        wrong = [bool(network(seen).argmax(1) != y[i]) for seen in record.seen]
        if any(wrong):
            assert wrong.index(True) == len(wrong) - 1
            assert torch.equal(state.found, record.seen[-1])
            steps_needed.add(len(wrong))
        else:
            assert len(wrong) == 11
            values = [plain(network(seen), y[i : i + 1], seen).item() for seen in record.seen[1:]]
            assert torch.equal(state.found, record.seen[1 + values.index(max(values))])
        assert (state.fooled[0], state.forwards[0]) == (whole.success[i], whole.forwards[i])
    assert len(steps_needed) > 3


def test_forward_and_backward_passes_are_counted() -> None:
    x, y = images(4), torch.tensor([0, 0, 1, 0])
    for attack, stages, eot in (
        (APGD(0.1), 1, 1),
        (APGD(0.1, steps=3, restarts=2), 2, 1),
        (APGD(0.1, steps=3, eot=4), 1, 4),
        (APGD(0.1, steps=3, loss="dlr", targets=3, restarts=2, norm="l2"), 6, 1),
        (APGD(0.1, steps=3, loss="dlr", targets=9), 4, 1),
        (APGD(0.1, steps=3, loss="kl"), 1, 1),
    ):
        passes = stages * eot * (attack.steps + 1)
        for clean in (None, net(1)(images(4)).detach()):
            result = attack.run(net(1), x, y, clean_logits=clean)
            first = int(clean is None)
            assert result.success.tolist() == [False, False, True, False]
            assert result.forwards.tolist() == [first + passes, first + passes, first, first + passes]
            assert result.backwards.tolist() == [passes, passes, 0, passes]
            assert torch.equal(result.x_adv[2], x[2])


def test_stages_are_all_targets_of_a_restart_then_the_next_restart() -> None:
    attack = APGD(0.1, loss="dlr", targets=3, restarts=2)
    assert [(stage.restart, stage.target) for stage in attack.stages()] == [
        (0, 1),
        (0, 2),
        (0, 3),
        (1, 1),
        (1, 2),
        (1, 3),
    ]
    assert [(stage.restart, stage.target) for stage in APGD(0.1, restarts=2).stages()] == [(0, 0), (1, 0)]
    assert APGD(0.1, loss="dlr").least_classes() == 3
    assert attack.least_classes() == 4
    assert APGD(0.1, loss="ce", targets=3).least_classes() == 2


@pytest.mark.parametrize("loss", ["ce", "margin", "dlr"])
def test_each_target_stage_increases_its_own_class(loss: str) -> None:
    model, x, y = net(4), 0.3 + 0.4 * images(8), torch.zeros(8, dtype=torch.int64)
    attack = APGD(0.2, steps=20, loss=loss, targets=4)
    order = model(x).detach()[:, 1:].argsort(1, descending=True) + 1

    def lead(at: Tensor, rank: int) -> Tensor:
        logits: Tensor = model(at).detach()
        return logits[torch.arange(8), order[:, rank - 1]] - logits[:, 0]

    found = []
    for stage in attack.stages():
        state = AttackState(model, x, y)
        attack.run_stage(state, stage)
        found.append(state.found)
    for rank in (1, 2, 3, 4):
        leads = torch.stack([lead(at, rank) for at in found])
        assert (leads.argmax(0) == rank - 1).double().mean() > 0.8
        assert (leads[rank - 1] > lead(x, rank) + 0.5).all()


def test_a_later_target_succeeds_where_the_first_fails() -> None:
    # The wrong class of the largest clean logit is out of reach; the second is predicted in one corner of the ball.
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 4, dtype=ONE))
    model[1].get_parameter("weight").data = torch.tensor(
        [[0.0] * 4, [0.0, 0.1, 0.1, 0.1], [8.0, -1.0, -1.0, -1.0], [0.0] * 4], dtype=ONE
    )
    model[1].get_parameter("bias").data = torch.tensor([1.0, 0.0, -5.7, -4.0], dtype=ONE)
    x, y = torch.full((3, 1, 2, 2), 0.5, dtype=ONE), torch.zeros(3, dtype=torch.int64)
    assert model(x)[0].argsort(descending=True).tolist()[:2] == [0, 1]
    for loss in ("ce", "margin", "dlr"):
        one, two = (APGD(0.4, steps=10, loss=loss, targets=k).run(model, x, y) for k in (1, 2))
        assert not one.success.any()
        assert two.success.all()
        assert (model(two.x_adv).argmax(1) == 2).all()


@pytest.mark.parametrize("loss", ["ce", "margin"])
def test_targeted_reaches_the_given_class(network: nn.Sequential, digits: tuple[Tensor, Tensor], loss: str) -> None:
    x, y = digits[0][:20], (digits[1][:20] + 3) % 10
    result = APGD(0.2, steps=20, loss=loss, targeted=True).run(network, x, y)
    assert result.success.double().mean() > 0.5
    assert torch.equal(network(result.x_adv).argmax(1) == y, result.success)


def test_a_restart_attacks_only_the_remaining_examples(network: nn.Sequential, digits: tuple[Tensor, Tensor]) -> None:
    x, y = digits[0][:40], digits[1][:40]
    once, twice = (APGD(0.05, steps=10, restarts=k).run(network, x, y) for k in (1, 2))
    assert torch.equal(once.forwards[once.success], twice.forwards[once.success])
    assert torch.equal(once.x_adv[once.success], twice.x_adv[once.success])
    assert (twice.success | ~once.success).all()
    assert (twice.forwards[~twice.success] == 1 + 2 * 11).all()


def test_s_apgd_reaches_at_least_the_loss_of_s_pgd(network: nn.Sequential, digits: tuple[Tensor, Tensor]) -> None:
    x, y = digits[0][:50], digits[1][:50]
    eps = 0.03  # few examples are broken, so that the losses of the others can be compared
    apgd = APGD(eps, loss="std").run(network, x, y)
    pgd = PGD(eps, steps=100, loss="std").run(network, x, y)
    assert apgd.success.sum() >= pgd.success.sum()
    robust = ~apgd.success & ~pgd.success
    assert robust.sum() > 20
    apgd_loss, pgd_loss = (losses.std(network(result.x_adv[robust]), y[robust]).detach() for result in (apgd, pgd))
    assert (apgd_loss >= 0.99 * pgd_loss).double().mean() > 0.9  # some starts lead to another maximum
    assert apgd_loss.mean() >= 0.98 * pgd_loss.mean()


@pytest.mark.parametrize("loss", ["ce", "sce(gamma=5)", "std"])
def test_saturated_logits_do_not_stop_the_attack(loss: str) -> None:
    # The losses themselves are 0 in float32, and so are their gradients.
    model, x, y = net(1, lead=8.0).float(), images(6).float(), torch.zeros(6, dtype=torch.int64)
    saturated = copy.deepcopy(model)
    for name in ("weight", "bias"):
        saturated[-1].get_parameter(name).data *= 100
    assert plain(saturated(x), y, x).max() == 0
    attack = APGD(0.3, steps=20, loss=loss)
    result, saturated_result = attack.run(model, x, y), attack.run(saturated, x, y)
    assert result.success.any()
    assert (saturated_result.success | ~result.success).all()


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_zero_gradients_leave_the_start(norm: Norm) -> None:
    flat = nn.Sequential(nn.Flatten(), nn.Linear(12, 4, dtype=ONE))
    flat[1].get_parameter("weight").data.zero_()
    flat[1].get_parameter("bias").data = torch.tensor([1.0, 0.0, 0.5, -1.0], dtype=ONE)
    x, y = images(3), torch.zeros(3, dtype=torch.int64)
    for attack in (APGD(0.1, steps=10, norm=norm), APGD(0.1, steps=10, loss="dlr", norm=norm, targets=2)):
        points, state = recorded(attack, flat, x, y)
        assert not state.fooled.any()
        assert torch.equal(points, points[:1].expand_as(points))  # a zero gradient has no direction


def test_images_of_any_shape() -> None:
    generator = torch.Generator().manual_seed(3)
    for shape in ((1,), (7,), (2, 3), (1, 2, 2, 2)):
        layer = nn.Linear(math.prod(shape), 3, dtype=ONE)
        layer.weight.data = torch.randn(layer.weight.shape, generator=generator, dtype=ONE)
        layer.bias.data = -layer.weight.data.sum(1) / 2  # all logits are equal at the centre of the box
        model = nn.Sequential(nn.Flatten(), layer)
        x = torch.rand(20, *shape, generator=generator, dtype=ONE)
        for norm in ("linf", "l2"):
            result = APGD(0.3, steps=10, norm=norm).run(model, x, model(x).argmax(1))
            assert result.x_adv.shape == x.shape
            assert result.success.any()


def test_too_few_classes_for_the_loss_are_refused() -> None:
    x, y = images(3), torch.zeros(3, dtype=torch.int64)
    for C, attack in (
        (2, APGD(0.1, steps=3, loss="std")),
        (2, APGD(0.1, steps=3, loss="dlr")),
        (3, APGD(0.1, steps=3, loss="dlr", targets=9)),
    ):
        least = attack.least_classes()
        with pytest.raises(InputError, match=f"this loss needs at least {least} classes; got {C}"):
            attack.run(net(1, C), x, y)
    for C in (2, 3):
        result = APGD(0.1, steps=3, loss="margin", targets=9).run(net(1, C), x, y)
        assert result.backwards.tolist() == [4 * (C - 1)] * 3


@pytest.mark.filterwarnings("ignore:the model is in training mode")
def test_eot_averages_over_a_randomized_model(network: nn.Sequential, digits: tuple[Tensor, Tensor]) -> None:
    x, y = digits[0][:10], digits[1][:10]
    model = nn.Sequential(nn.Dropout(0.2), *network)
    state = torch.get_rng_state()
    attack = APGD(0.1, steps=5, eot=3)
    result = attack.run(model, x, y)
    assert torch.equal(torch.get_rng_state(), state)
    assert model[0].training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert result.success.any()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"eps": 8}, "eps is for images in"),
        ({"eps": -1, "norm": "l2"}, "eps must be a finite number of at least 0"),
        ({"steps": 0}, "steps is a whole number of at least 1, got 0"),
        ({"restarts": 0}, "restarts is a whole number of at least 1, got 0"),
        ({"eot": 1.5}, "eot is a whole number of at least 1, got 1.5"),
        ({"targets": -1}, "targets is a whole number of at least 0, got -1"),
        ({"targets": 2.0}, "targets is a whole number of at least 0, got 2.0"),
        ({"rho": 1.5}, "rho must be a finite number between 0 and 1; got 1.5"),
        ({"norm": "l1"}, "norm must be one of 'linf', 'l2'; got 'l1'"),
        ({"loss": "hinge"}, "unknown loss 'hinge'"),
        ({"loss": "std", "targets": 9}, "an attack with targets uses a loss of ce, .*; got std"),
        ({"loss": "std", "targeted": True}, "an attack with targeted=true uses a loss of ce, .*; got std"),
        (
            {"targets": 9, "targeted": True},
            "targets=9 selects wrong classes and needs targeted=false, got targeted=true",
        ),
    ],
)
def test_impossible_values_are_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        APGD(**{"eps": 0.1, **fields})  # type: ignore[arg-type]


def test_text_and_names() -> None:
    attack = APGD(8 / 255, steps=50, loss="sce(gamma=5.0)", norm="l2", rho=0.5, restarts=2, eot=3, seed=4)
    text = "apgd:eps=8/255,steps=50,loss=sce(gamma=5),norm=l2,rho=0.5,restarts=2,eot=3,seed=4"
    assert str(attack) == text
    assert parse(text) == attack
    assert parse("apgd:eps=8/255") == APGD(8 / 255)
    assert parse("apgd-t:eps=8/255") == APGD(8 / 255, loss="dlr", targets=9)
    assert parse("apgd-dlr:eps=8/255") == APGD(8 / 255, loss="dlr")
    assert parse("s-apgd:eps=8/255") == APGD(8 / 255, loss="std")
    assert parse("apgd:eps=0.1,targeted=true") == APGD(0.1, targeted=True)


def test_call_returns_the_images_of_run_and_changes_nothing(
    network: nn.Sequential, digits: tuple[Tensor, Tensor]
) -> None:
    x, y = digits[0][:20], digits[1][:20]
    before, state = x.clone(), copy.deepcopy(network.state_dict())
    for attack in (APGD(0.05, steps=12), APGD(0.05, steps=12, loss="dlr", targets=2)):
        assert torch.equal(attack(network, x, y), attack.run(network, x, y).x_adv)
    assert torch.equal(x, before)
    assert all(torch.equal(value, state[name]) for name, value in network.state_dict().items())
    assert all(parameter.grad is None for parameter in network.parameters())
