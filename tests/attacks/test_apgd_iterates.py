"""APGD's iterates agree with a one-example transcription of the published algorithm, and with pyautoattack's."""

import importlib
import itertools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from ctrobust import draws
from ctrobust.attacks import APGD
from ctrobust.attacks.apgd import checkpoint_windows
from ctrobust.attacks.attack_losses import Loss
from ctrobust.attacks.attack_state import AttackState
from ctrobust.specs.attack_fields import Norm
from tests.attacks.apgd_states import Recorded, images, net, plain, recorded
from tests.attacks.conftest import Peer

# A transcription of the paper's algorithm for one example: plain losses, Python numbers, no batch.


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


def the_targeted_dlr(z: Tensor, y: int, clean: Tensor) -> Tensor:
    """Targeted DLR towards the wrong class of the second largest clean logit."""
    target = [j for j in clean.argsort(descending=True).tolist() if j != y][1]
    ordered = z.sort(descending=True).values
    return (z[target] - z[y]) / (ordered[0] - (ordered[2] + ordered[3]) / 2)


Scalar = Callable[[Tensor, int, Tensor], Tensor]


def transcribed(
    model: nn.Module, x: Tensor, y: int, begin: Tensor, loss: Scalar, attack: APGD
) -> tuple[list[Tensor], list[float], set[int]]:
    """Return the iterates, their losses, and which of the two conditions ever halved the step size."""
    clean = model(x[None])[0].detach()

    def f(at: Tensor) -> tuple[float, Tensor]:
        at = at.clone().requires_grad_()
        value = loss(model(at[None])[0], y, clean)
        return value.item(), torch.autograd.grad(value, at)[0]

    def project(at: Tensor) -> Tensor:
        if attack.norm == "linf":
            return torch.maximum(torch.minimum(at, x + attack.eps), x - attack.eps).clamp(0, 1)
        length = (at - x).square().sum().sqrt().item()
        return (at if length <= attack.eps else x + (at - x) * attack.eps / length).clamp(0, 1)

    def steepest(gradient: Tensor) -> Tensor:
        length = gradient.square().sum().sqrt()
        return gradient.sign() if attack.norm == "linf" else gradient / length if length > 0 else gradient

    # w_j = ceil(p_j n), p_1 = .22, p_{j+1} = p_j + max(p_j - p_{j-1} - .03, .06); in hundredths.
    ends, width = [0, 22], 22
    while ends[-1] < 100:
        width = max(width - 3, 6)
        ends.append(ends[-1] + width)
    ends = [end * attack.steps // 100 for end in ends]

    step_size, conditions = 2 * attack.eps, set[int]()
    iterates, values, gradients = [begin], [f(begin)[0]], [f(begin)[1]]
    point, gradient, previous = begin, gradients[0], begin
    checkpoint_loss, halved = values[0], True
    for k in range(1, attack.steps + 1):
        z = project(point + step_size * steepest(gradient))
        new = z if k == 1 else project(point + 0.75 * (z - point) + 0.25 * (point - previous))
        previous, point = point, new
        value, gradient = f(point)
        iterates, values, gradients = [*iterates, point], [*values, value], [*gradients, gradient]
        if k in ends:
            first = ends[ends.index(k) - 1]
            increases = sum(values[i + 1] > values[i] for i in range(first, k))
            first_condition = increases <= attack.rho * (k - first)
            second_condition = not halved and max(values) == checkpoint_loss
            conditions |= {1} if first_condition else set()
            conditions |= {2} if second_condition and not first_condition else set()
            halved, checkpoint_loss = first_condition or second_condition, max(values)
            if halved:
                step_size /= 2
                best = values.index(max(values))
                point, gradient = iterates[best], gradients[best]
    return iterates, values, conditions


NAMES: dict[str, tuple[str | Loss, Scalar, int]] = {
    "ce": ("ce", the_ce, 0), "std": ("std", the_std, 0), "sce": ("sce(gamma=5)", the_sce, 0),
    "kl": ("kl", the_kl, 0), "skl": ("skl(gamma=1)", the_skl, 0), "dlr": ("dlr", the_dlr, 0),
    "margin": ("margin", the_margin, 0), "callable": (plain, the_ce, 0), "targeted dlr": ("dlr", the_targeted_dlr, 2),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "norm", "rho"),
    [*((name, "linf", 0.75) for name in NAMES), *((name, "l2", 0.75) for name in ("ce", "std", "targeted dlr")),
     ("ce", "linf", 0.3), ("std", "l2", 0.3)],
)  # fmt: skip
def test_every_iterate_agrees_with_the_transcription(name: str, norm: Norm, rho: float) -> None:
    loss, scalar, rank = NAMES[name]
    count = 1 if rho == 0.75 and norm == "linf" else 2
    model, x, y = net(1), images(count), torch.zeros(count, dtype=torch.int64)
    attack = APGD(0.3 if norm == "linf" else 0.8, loss=loss, norm=norm, rho=rho, targets=rank)
    ours, state = recorded(attack, model, x, y)
    assert ours.shape == (101, count, 1, 3, 4)
    atol = 1e-12 if norm == "linf" else 1e-6  # near an l2 maximum, loss increases of 1e-16 count too
    conditions = set()
    for i in range(count):
        expected, values, used = transcribed(model, x[i], 0, ours[0, i], scalar, attack)
        torch.testing.assert_close(ours[:, i], torch.stack(expected), rtol=0, atol=atol)
        torch.testing.assert_close(state.found[i], expected[values.index(max(values))], rtol=0, atol=atol)
        conditions |= used
    if norm == "linf":
        assert conditions >= ({1} if rho == 0.75 else {1, 2})
    assert conditions


def test_step_size_is_halved_after_at_most_rho_loss_increases() -> None:
    model, x, y = net(1), images(1), torch.zeros(1, dtype=torch.int64)
    points, _ = recorded(APGD(0.3), model, x, y)
    values = [the_ce(model(point)[0], 0, x).item() for point in points[:23]]
    increases = sum(after > one for one, after in itertools.pairwise(values))
    assert 2 < increases < 20
    next_steps = []
    for rho in ((increases - 0.5) / 22, (increases + 0.5) / 22):  # the first window has 22 steps
        attack = APGD(0.3, rho=rho)
        points, _ = recorded(attack, model, x, y)
        expected, _, _ = transcribed(model, x[0], 0, points[0, 0], the_ce, attack)
        torch.testing.assert_close(points[:, 0], torch.stack(expected), rtol=0, atol=1e-12)
        next_steps.append(points[23])
    assert (next_steps[0] - next_steps[1]).abs().max() > 1e-3


def test_iterates_on_a_linear_model_agree_with_the_transcription() -> None:
    model, x, y = net(2, linear=True), images(2), torch.zeros(2, dtype=torch.int64)
    for attack in (APGD(0.1), APGD(0.3, norm="l2")):
        ours, _ = recorded(attack, model, x, y)
        expected, _, _ = transcribed(model, x[1], 0, ours[0, 1], the_ce, attack)
        torch.testing.assert_close(ours[:, 1], torch.stack(expected), rtol=0, atol=1e-6)


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("loss", ["ce", "dlr"])
def test_pyautoattack_has_the_same_iterates(norm: Norm, loss: str, peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(peer("pyautoattack"))
    kind = importlib.import_module("pyautoattack.autopgd_base").APGDAttack
    model, x, y = net(1), images(4), torch.zeros(4, dtype=torch.int64)
    attack = APGD(0.3 if norm == "linf" else 0.8, loss=loss, norm=norm)
    ours, state = recorded(attack, model, x, y)
    record = Recorded(model)
    theirs = kind(record, norm={"linf": "Linf", "l2": "L2"}[norm], eps=attack.eps, loss=loss, device="cpu")
    theirs.init_hyperparam(x)
    best = theirs.attack_single_run(x, y, x_init=ours[0])[0]
    assert len(record.seen) == len(ours) == 101  # as many passes
    # pyautoattack compares losses in float32: near an l2 maximum its iterates may differ after the first checkpoint.
    until = 101 if norm == "linf" else 23
    torch.testing.assert_close(ours[:until], torch.stack(record.seen)[:until], rtol=0, atol=1e-5)
    reached = [plain(model(at), y, at).detach() for at in (state.found, best)]
    torch.testing.assert_close(*reached, rtol=1e-4 if norm == "linf" else 0.05, atol=0)


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
def test_checkpoint_windows(steps: int, ends: list[int]) -> None:
    assert list(checkpoint_windows(steps)) == ends
    assert list(checkpoint_windows(steps).values()) == [b - a for a, b in zip([0, *ends], ends, strict=False)]


@pytest.mark.parametrize("steps", [7, 33, 64, 119, 500])
def test_windows_are_rounded_down_and_at_least_one(steps: int) -> None:
    windows = list(checkpoint_windows(steps).values())
    assert windows[0] == max(int(0.22 * steps), 1)
    for one, after in itertools.pairwise(windows):
        assert after == max(one - max(int(0.03 * steps), 1), int(0.06 * steps), 1)
    assert 0 <= steps - sum(windows) < max(windows[-1] - max(int(0.03 * steps), 1), int(0.06 * steps), 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_start_is_on_the_sphere_and_keyed_by_example(norm: Norm, dtype: torch.dtype) -> None:
    x, y, eps = (0.4 + 0.2 * images(6)).to(dtype), torch.zeros(6, dtype=torch.int64), 0.1
    keys, model = torch.tensor([3, 1, 4, 15, 9, 2]), net(1).to(dtype)
    record = Recorded(model)
    attack = APGD(eps, steps=1, norm=norm, seed=7, restarts=2)
    for stage in attack.stages():
        attack.run_stage(AttackState(record, x, y, keys), stage)
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
    attack.run_stage(AttackState(alone, x[3:4], y[3:4], keys[3:4]), attack.stages()[1])
    assert torch.equal(alone.seen[1][0], starts[1][3])
