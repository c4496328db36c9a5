"""APGD against a second, one-example form of the published algorithm, and against closed forms of linear models."""

import copy
import importlib
import itertools
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ctrobust import draws, losses
from ctrobust.attacks import APGD, PGD, parse
from ctrobust.attacks.apgd import checkpoints
from ctrobust.attacks.objectives import Loss
from ctrobust.attacks.projections import Norm
from ctrobust.attacks.victim import Victim
from ctrobust.errors import InputError
from tests.attacks.conftest import Peer

ONE = torch.float64


def plain(logits: Tensor, y: Tensor, _: Tensor) -> Tensor:
    return cross_entropy(logits, y, reduction="none")


class Recorded(nn.Module):
    """A model that keeps every image it was given."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.seen = model, list[Tensor]()

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(x.detach().clone())
        logits: Tensor = self.model(x)
        return logits


def recorded(attack: APGD, model: nn.Module, x: Tensor, y: Tensor) -> tuple[Tensor, Victim]:
    """The start and all iterates of the last part, (1 + steps, N, ...), if none falls; and what came of it."""
    record = Recorded(model)
    victim = Victim(record, x, y, targeted=attack.targeted)
    attack.parts()[-1].go(victim)
    return torch.stack(record.seen[1:]), victim


# The published algorithm for one example, from the paper's text: plain losses, Python numbers, no batch.


def the_ce(z: Tensor, y: int, _: Tensor) -> Tensor:
    return z.logsumexp(0) - z[y]


def the_std(z: Tensor, y: int, _: Tensor) -> Tensor:
    return torch.cat([z.softmax(0)[:y], z.softmax(0)[y + 1 :]]).std()


def the_sce(z: Tensor, y: int, clean: Tensor) -> Tensor:
    return (5 * the_std(z, y, clean)).exp() * the_ce(z, y, clean)


def the_kl(z: Tensor, _: int, clean: Tensor) -> Tensor:
    return (clean.softmax(0) * (clean.log_softmax(0) - z.log_softmax(0))).sum()


def the_skl(z: Tensor, y: int, clean: Tensor) -> Tensor:
    return the_std(z, y, clean).exp() * the_kl(z, y, clean)


def the_margin(z: Tensor, y: int, _: Tensor) -> Tensor:
    return max(z[j] for j in range(len(z)) if j != y) - z[y]


def the_dlr(z: Tensor, y: int, clean: Tensor) -> Tensor:
    ordered = z.sort(descending=True).values
    return the_margin(z, y, clean) / (ordered[0] - ordered[2])


def second(z: Tensor, y: int, clean: Tensor) -> Tensor:
    """Targeted DLR towards the second best wrong class."""
    target = [j for j in clean.argsort(descending=True).tolist() if j != y][1]
    ordered = z.sort(descending=True).values
    return (z[target] - z[y]) / (ordered[0] - (ordered[2] + ordered[3]) / 2)


Scalar = Callable[[Tensor, int, Tensor], Tensor]


def climb(
    model: nn.Module, x: Tensor, y: int, begin: Tensor, loss: Scalar, attack: APGD
) -> tuple[list[Tensor], list[float], set[str]]:
    """Iterates, their losses, and which of the conditions ever halved the step."""
    clean = model(x[None])[0].detach()

    def f(at: Tensor) -> tuple[float, Tensor]:
        at = at.clone().requires_grad_()
        value = loss(model(at[None])[0], y, clean)
        return value.item(), torch.autograd.grad(value, at)[0]

    def inside(at: Tensor) -> Tensor:
        if attack.norm == "linf":
            return torch.maximum(torch.minimum(at, x + attack.eps), x - attack.eps).clamp(0, 1)
        length = (at - x).square().sum().sqrt().item()
        return (at if length <= attack.eps else x + (at - x) * attack.eps / length).clamp(0, 1)

    def up(gradient: Tensor) -> Tensor:
        length = gradient.square().sum().sqrt()
        return gradient.sign() if attack.norm == "linf" else gradient / length if length > 0 else gradient

    # w_j = ceil(p_j n), p_1 = .22, p_{j+1} = p_j + max(p_j - p_{j-1} - .03, .06); in hundredths.
    ends, width = [0, 22], 22
    while ends[-1] < 100:
        width = max(width - 3, 6)
        ends.append(ends[-1] + width)
    ends = [end * attack.steps // 100 for end in ends]

    size, reasons = 2 * attack.eps, set[str]()
    iterates, values, gradients = [begin], [f(begin)[0]], [f(begin)[1]]
    point, gradient, previous = begin, gradients[0], begin
    top_at_check, halved = values[0], True
    for k in range(1, attack.steps + 1):
        z = inside(point + size * up(gradient))
        new = z if k == 1 else inside(point + 0.75 * (z - point) + 0.25 * (point - previous))
        previous, point = point, new
        value, gradient = f(point)
        iterates, values, gradients = [*iterates, point], [*values, value], [*gradients, gradient]
        if k in ends:
            first = ends[ends.index(k) - 1]
            rises = sum(values[i + 1] > values[i] for i in range(first, k))
            rare = rises <= attack.rho * (k - first)
            flat = not halved and max(values) == top_at_check
            reasons |= {"rare"} if rare else set()
            reasons |= {"flat"} if flat and not rare else set()
            halved, top_at_check = rare or flat, max(values)
            if halved:
                size /= 2
                best = values.index(max(values))
                point, gradient = iterates[best], gradients[best]
    return iterates, values, reasons


def net(seed: int, C: int = 5, *, lead: float = 12.0, linear: bool = False) -> nn.Sequential:
    """A fixed model of 12 pixels; the lead keeps label 0 ahead everywhere, so that no example falls."""
    generator = torch.Generator().manual_seed(seed)
    hidden = [nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, C)]
    model = nn.Sequential(nn.Flatten(), *([nn.Linear(12, C)] if linear else hidden)).to(ONE)
    for parameter in model.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator, dtype=ONE)
    model[-1].get_parameter("weight").data /= 2
    model[-1].get_parameter("bias").data[0] += lead
    return model


def images(count: int, seed: int = 0) -> Tensor:
    return torch.rand(count, 1, 3, 4, generator=torch.Generator().manual_seed(seed), dtype=ONE)


NAMES: dict[str, tuple[str | Loss, Scalar, int]] = {
    "ce": ("ce", the_ce, 0), "std": ("std", the_std, 0), "sce": ("sce(gamma=5)", the_sce, 0),
    "kl": ("kl", the_kl, 0), "skl": ("skl(gamma=1)", the_skl, 0), "dlr": ("dlr", the_dlr, 0),
    "margin": ("margin", the_margin, 0), "callable": (plain, the_ce, 0), "towards": ("dlr", second, 2),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "norm", "rho"),
    [*((name, "linf", 0.75) for name in NAMES), *((name, "l2", 0.75) for name in ("ce", "std", "towards")),
     ("ce", "linf", 0.3), ("std", "l2", 0.3)],
)  # fmt: skip
def test_every_iterate_is_the_published_one(name: str, norm: Norm, rho: float) -> None:
    loss, scalar, rank = NAMES[name]
    count = 1 if rho == 0.75 and norm == "linf" else 2
    model, x, y = net(1), images(count), torch.zeros(count, dtype=torch.int64)
    attack = APGD(0.3 if norm == "linf" else 0.8, loss=loss, norm=norm, rho=rho, targets=rank)
    ours, victim = recorded(attack, model, x, y)
    assert ours.shape == (101, count, 1, 3, 4)
    near = 1e-12 if norm == "linf" else 1e-6  # where an l2 ascent is at its end, rises of 1e-16 count too
    reasons = set()
    for i in range(count):
        theirs, values, why = climb(model, x[i], 0, ours[0, i], scalar, attack)
        torch.testing.assert_close(ours[:, i], torch.stack(theirs), rtol=0, atol=near)
        torch.testing.assert_close(victim.found[i], theirs[values.index(max(values))], rtol=0, atol=near)
        reasons |= why
    assert reasons >= ({"rare"} if rho == 0.75 else {"rare", "flat"})


def test_as_many_rises_as_asked_for_or_fewer_halve_the_step() -> None:
    model, x, y = net(1), images(1), torch.zeros(1, dtype=torch.int64)
    points, _ = recorded(APGD(0.3), model, x, y)
    values = [the_ce(model(point)[0], 0, x).item() for point in points[:23]]
    rises = sum(after > one for one, after in itertools.pairwise(values))
    assert 2 < rises < 20
    next_steps = []
    for rho in ((rises - 0.5) / 22, (rises + 0.5) / 22):  # the first window has 22 steps
        attack = APGD(0.3, rho=rho)
        points, _ = recorded(attack, model, x, y)
        theirs, _, _ = climb(model, x[0], 0, points[0, 0], the_ce, attack)
        torch.testing.assert_close(points[:, 0], torch.stack(theirs), rtol=0, atol=1e-12)
        next_steps.append(points[23])
    assert (next_steps[0] - next_steps[1]).abs().max() > 1e-3


def test_of_a_linear_model_too() -> None:
    model, x, y = net(2, linear=True), images(2), torch.zeros(2, dtype=torch.int64)
    for attack in (APGD(0.1), APGD(0.3, norm="l2")):
        ours, _ = recorded(attack, model, x, y)
        theirs, _, _ = climb(model, x[1], 0, ours[0, 1], the_ce, attack)
        torch.testing.assert_close(ours[:, 1], torch.stack(theirs), rtol=0, atol=1e-6)


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("loss", ["ce", "dlr"])
def test_the_reference_visits_the_same_iterates(
    norm: Norm, loss: str, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(peer("pyautoattack"))
    kind = importlib.import_module("pyautoattack.autopgd_base").APGDAttack
    model, x, y = net(1), images(4), torch.zeros(4, dtype=torch.int64)
    attack = APGD(0.3 if norm == "linf" else 0.8, loss=loss, norm=norm)
    ours, victim = recorded(attack, model, x, y)
    record = Recorded(model)
    theirs = kind(record, norm={"linf": "Linf", "l2": "L2"}[norm], eps=attack.eps, loss=loss, device="cpu")
    theirs.init_hyperparam(x)
    best = theirs.attack_single_run(x, y, x_init=ours[0])[0]
    assert len(record.seen) == len(ours) == 101  # as many passes
    # It compares losses in float32: near the top of an l2 ascent iterates may part, after the first checkpoint.
    until = 101 if norm == "linf" else 23
    torch.testing.assert_close(ours[:until], torch.stack(record.seen)[:until], rtol=0, atol=1e-5)
    heights = [plain(model(at), y, at).detach() for at in (victim.found, best)]
    torch.testing.assert_close(*heights, rtol=1e-4 if norm == "linf" else 0.05, atol=0)


@pytest.mark.parametrize(
    ("steps", "ends"),
    [
        (1, [1]),
        (2, [1, 2]),
        (10, list(range(2, 11))),
        (20, [4, 7, 9, *range(10, 21)]),
        (50, [11, 21, 30, 38, 45]),
        (100, [22, 41, 57, 70, 80, 87, 93, 99]),
        (1000, [220, 410, 570, 700, 800, 870, 930, 990]),
    ],
)
def test_checkpoints(steps: int, ends: list[int]) -> None:
    assert list(checkpoints(steps)) == ends
    assert list(checkpoints(steps).values()) == [b - a for a, b in zip([0, *ends], ends, strict=False)]


@pytest.mark.parametrize("steps", [7, 33, 64, 119, 500])
def test_windows_are_rounded_down_and_at_least_one(steps: int) -> None:
    windows = list(checkpoints(steps).values())
    assert windows[0] == max(int(0.22 * steps), 1)
    for one, after in itertools.pairwise(windows):
        assert after == max(one - max(int(0.03 * steps), 1), int(0.06 * steps), 1)
    assert 0 <= steps - sum(windows) < max(windows[-1] - max(int(0.03 * steps), 1), int(0.06 * steps), 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_the_start_is_on_the_sphere_and_keyed(norm: Norm, dtype: torch.dtype) -> None:
    x, y, eps = (0.4 + 0.2 * images(6)).to(dtype), torch.zeros(6, dtype=torch.int64), 0.1
    keys, model = torch.tensor([3, 1, 4, 15, 9, 2]), net(1).to(dtype)
    record = Recorded(model)
    attack = APGD(eps, steps=1, norm=norm, seed=7, restarts=2)
    for part in attack.parts():
        attack.once(Victim(record, x, y, keys), part)
    starts = record.seen[1], record.seen[4]
    for restart, offset in enumerate(begin - x for begin in starts):
        if norm == "linf":
            t = 2 * draws.uniform(keys, draws.stream(7, "apgd", restart, 0), (1, 3, 4)).to(dtype) - 1
            t = t / t.abs().amax((1, 2, 3), keepdim=True)
        else:
            t = draws.normal(keys, draws.stream(7, "apgd", restart, 0), (1, 3, 4)).to(dtype)
            t = t / t.square().sum((1, 2, 3), keepdim=True).sqrt()
        torch.testing.assert_close(offset, eps * t, rtol=0, atol=4 * torch.finfo(dtype).eps)
    alone = Recorded(model)
    attack.once(Victim(alone, x[3:4], y[3:4], keys[3:4]), attack.parts()[1])
    assert torch.equal(alone.seen[1][0], starts[1][3])


def problem(C: int) -> tuple[nn.Sequential, Tensor, Tensor, Tensor]:
    """A linear model where class 1 dominates the other wrong ones of label 0; images; labels; w_1 - w_0."""
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
def test_linf_success_is_what_ball_and_box_leave_possible(C: int, loss: str | Loss) -> None:
    model, x, y, direction = problem(C)
    reached = model((x + 0.1 * direction.sign().view(1, 3, 4)).clamp(0, 1)).detach()
    result = APGD(0.1, steps=20, loss=loss).run(model, x, y)
    assert torch.equal(result.success, reached[:, 1] > reached[:, 0])
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
def test_ball_and_box(norm: Norm, dtype: torch.dtype) -> None:
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
    (x, y), keys = (part[:60] for part in digits), torch.arange(60) * 3
    attack = APGD(0.06 if norm == "linf" else 0.5, steps=10, loss=loss, norm=norm)
    whole = attack.run(network, x, y, keys)
    assert 0.1 < whole.success.double().mean() < 0.9
    some = torch.randperm(60, generator=torch.Generator().manual_seed(1))
    groups = (*torch.split(some, 25), some[:7], some[7:8], (~whole.success).nonzero()[:, 0])
    for index in groups:
        part = attack.run(network, x[index], y[index], keys[index])
        torch.testing.assert_close(part.x_adv, whole.x_adv[index], rtol=0, atol=0 if norm == "linf" else 1e-9)
        for name in ("success", "forwards", "backwards"):
            assert torch.equal(getattr(part, name), getattr(whole, name)[index]), name


def test_the_first_image_that_fools_is_kept(network: nn.Sequential, digits: tuple[Tensor, Tensor]) -> None:
    x, y = digits[0][:40], digits[1][:40]
    attack, fell = APGD(0.06, steps=9), set()
    whole = attack.run(network, x, y)
    for i in range(40):
        record = Recorded(network)
        victim = Victim(record, x[i : i + 1], y[i : i + 1], torch.tensor([i]))
        attack.once(victim, attack.parts()[0])
        wrong = [bool(network(seen).argmax(1) != y[i]) for seen in record.seen]
        if any(wrong):
            assert wrong.index(True) == len(wrong) - 1
            assert torch.equal(victim.found, record.seen[-1])
            fell.add(len(wrong))
        else:
            assert len(wrong) == 11
            values = [plain(network(seen), y[i : i + 1], seen).item() for seen in record.seen[1:]]
            assert torch.equal(victim.found, record.seen[1 + values.index(max(values))])
        assert (victim.fooled[0], victim.forwards[0]) == (whole.success[i], whole.forwards[i])
    assert len(fell) > 3


def test_passes() -> None:
    x, y = images(4), torch.tensor([0, 0, 1, 0])
    for attack, parts, eot in (
        (APGD(0.1), 1, 1),
        (APGD(0.1, steps=3, restarts=2), 2, 1),
        (APGD(0.1, steps=3, eot=4), 1, 4),
        (APGD(0.1, steps=3, loss="dlr", targets=3, restarts=2, norm="l2"), 6, 1),
        (APGD(0.1, steps=3, loss="dlr", targets=9), 4, 1),
        (APGD(0.1, steps=3, loss="kl"), 1, 1),
    ):
        stands = parts * eot * (attack.steps + 1)
        for clean in (None, net(1)(images(4)).detach()):
            result = attack.run(net(1), x, y, clean_logits=clean)
            first = int(clean is None)
            assert result.success.tolist() == [False, False, True, False]
            assert result.forwards.tolist() == [first + stands, first + stands, first, first + stands]
            assert result.backwards.tolist() == [stands, stands, 0, stands]
            assert torch.equal(result.x_adv[2], x[2])


def test_parts_are_all_targets_of_a_restart_then_the_next() -> None:
    attack = APGD(0.1, loss="dlr", targets=3, restarts=2)
    assert [(part.restart, part.target) for part in attack.parts()] == [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3)]
    assert [(part.restart, part.target) for part in APGD(0.1, restarts=2).parts()] == [(0, 0), (1, 0)]
    assert APGD(0.1, loss="dlr").least_classes() == 3
    assert attack.least_classes() == 4
    assert APGD(0.1, loss="ce", targets=3).least_classes() == 2


@pytest.mark.parametrize("loss", ["ce", "margin", "dlr"])
def test_each_target_leads_to_its_own_class(loss: str) -> None:
    model, x, y = net(4), 0.3 + 0.4 * images(8), torch.zeros(8, dtype=torch.int64)
    attack = APGD(0.2, steps=20, loss=loss, targets=4)
    order = model(x).detach()[:, 1:].argsort(1, descending=True) + 1

    def lead(at: Tensor, rank: int) -> Tensor:
        logits: Tensor = model(at).detach()
        return logits[torch.arange(8), order[:, rank - 1]] - logits[:, 0]

    found = []
    for part in attack.parts():
        victim = Victim(model, x, y)
        attack.once(victim, part)
        found.append(victim.found)
    for rank in (1, 2, 3, 4):
        leads = torch.stack([lead(at, rank) for at in found])
        assert (leads.argmax(0) == rank - 1).double().mean() > 0.8
        assert (leads[rank - 1] > lead(x, rank) + 0.5).all()


def test_a_later_target_finds_what_the_first_does_not() -> None:
    # The best wrong class of the clean output is out of reach; the second is ahead in one corner of the ball.
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


@pytest.mark.parametrize("loss", ["ce", "margin", "dlr"])
def test_targeted_reaches_the_given_class(network: nn.Sequential, digits: tuple[Tensor, Tensor], loss: str) -> None:
    x, y = digits[0][:20], (digits[1][:20] + 3) % 10
    result = APGD(0.2, steps=20, loss=loss, targeted=True).run(network, x, y)
    assert result.success.double().mean() > 0.5
    assert torch.equal(network(result.x_adv).argmax(1) == y, result.success)


def test_a_restart_only_sees_who_stands(network: nn.Sequential, digits: tuple[Tensor, Tensor]) -> None:
    x, y = digits[0][:40], digits[1][:40]
    once, twice = (APGD(0.05, steps=10, restarts=k).run(network, x, y) for k in (1, 2))
    assert torch.equal(once.forwards[once.success], twice.forwards[once.success])
    assert torch.equal(once.x_adv[once.success], twice.x_adv[once.success])
    assert (twice.success | ~once.success).all()
    assert (twice.forwards[~twice.success] == 1 + 2 * 11).all()


def test_s_apgd_climbs_at_least_as_high_as_s_pgd(network: nn.Sequential, digits: tuple[Tensor, Tensor]) -> None:
    x, y = digits[0][:50], digits[1][:50]
    eps = 0.03  # few fall, so that the heights of the others can be compared
    apgd = APGD(eps, loss="std").run(network, x, y)
    pgd = PGD(eps, steps=100, loss="std").run(network, x, y)
    assert apgd.success.sum() >= pgd.success.sum()
    stand = ~apgd.success & ~pgd.success
    assert stand.sum() > 20
    high, low = (losses.std(network(result.x_adv[stand]), y[stand]).detach() for result in (apgd, pgd))
    assert (high >= 0.99 * low).double().mean() > 0.9  # some starts lead to another top
    assert high.mean() >= 0.98 * low.mean()


@pytest.mark.parametrize("loss", ["ce", "sce(gamma=5)", "std"])
def test_a_saturated_model_is_climbed_too(loss: str) -> None:
    # The losses themselves are 0 in float32, and so are their gradients.
    model, x, y = net(1, lead=8.0).float(), images(6).float(), torch.zeros(6, dtype=torch.int64)
    loud = copy.deepcopy(model)
    for name in ("weight", "bias"):
        loud[-1].get_parameter(name).data *= 100
    assert plain(loud(x), y, x).max() == 0
    attack = APGD(0.3, steps=20, loss=loss)
    quiet_result, loud_result = attack.run(model, x, y), attack.run(loud, x, y)
    assert quiet_result.success.any()
    assert (loud_result.success | ~quiet_result.success).all()


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_zero_gradients(norm: Norm) -> None:
    flat = nn.Sequential(nn.Flatten(), nn.Linear(12, 4, dtype=ONE))
    flat[1].get_parameter("weight").data.zero_()
    flat[1].get_parameter("bias").data = torch.tensor([1.0, 0.0, 0.5, -1.0], dtype=ONE)
    x, y = images(3), torch.zeros(3, dtype=torch.int64)
    for attack in (APGD(0.1, steps=10, norm=norm), APGD(0.1, steps=10, loss="dlr", norm=norm, targets=2)):
        points, victim = recorded(attack, flat, x, y)
        assert not victim.fooled.any()
        assert torch.equal(points, points[:1].expand_as(points))  # nothing leads away from the start


def test_an_image_of_one_pixel_and_of_one_dimension() -> None:
    generator = torch.Generator().manual_seed(3)
    for shape in ((1,), (7,), (2, 3), (1, 2, 2, 2)):
        layer = nn.Linear(math.prod(shape), 3, dtype=ONE)
        layer.weight.data = torch.randn(layer.weight.shape, generator=generator, dtype=ONE)
        layer.bias.data = -layer.weight.data.sum(1) / 2  # all classes meet in the middle
        model = nn.Sequential(nn.Flatten(), layer)
        x = torch.rand(20, *shape, generator=generator, dtype=ONE)
        for norm in ("linf", "l2"):
            result = APGD(0.3, steps=10, norm=norm).run(model, x, model(x).argmax(1))
            assert result.x_adv.shape == x.shape
            assert result.success.any()


def test_too_few_classes() -> None:
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


def test_eot_averages_over_a_model_that_draws(network: nn.Sequential, digits: tuple[Tensor, Tensor]) -> None:
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
        ({"eps": -1, "norm": "l2"}, "eps is finite and at least 0"),
        ({"steps": 0}, "steps is a whole number of at least 1, got 0"),
        ({"restarts": 0}, "restarts is a whole number of at least 1, got 0"),
        ({"eot": 1.5}, "eot is a whole number of at least 1, got 1.5"),
        ({"targets": -1}, "targets is a whole number of at least 0, got -1"),
        ({"targets": 2.0}, "targets is a whole number of at least 0, got 2.0"),
        ({"rho": 1.5}, "rho is between 0 and 1, got 1.5"),
        ({"norm": "l1"}, "norm is one of linf, l2, got 'l1'"),
        ({"loss": "hinge"}, "unknown loss 'hinge'"),
        ({"loss": "std", "targets": 9}, "a targeted attack ascends ce, margin or dlr, got std"),
        ({"loss": "std", "targeted": True}, "a targeted attack ascends ce, margin or dlr, got std"),
        ({"targets": 9, "targeted": True}, "targets=9 chooses wrong classes; with targeted y already are the classes"),
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


def test_called_it_gives_the_images_alone(network: nn.Sequential, digits: tuple[Tensor, Tensor]) -> None:
    x, y = digits[0][:20], digits[1][:20]
    before, state = x.clone(), copy.deepcopy(network.state_dict())
    for attack in (APGD(0.05, steps=12), APGD(0.05, steps=12, loss="dlr", targets=2)):
        assert torch.equal(attack(network, x, y), attack.run(network, x, y).x_adv)
    assert torch.equal(x, before)
    assert all(torch.equal(value, state[name]) for name, value in network.state_dict().items())
    assert all(parameter.grad is None for parameter in network.parameters())
