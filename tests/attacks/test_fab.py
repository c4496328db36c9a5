"""FAB against a one-example transcription of the published algorithm and closed forms of linear models."""

import math

import pytest
import torch
from torch import Tensor, nn

from ctrobust import draws
from ctrobust.attacks import FAB, PGD, parse
from ctrobust.attacks.attack_state import AttackState
from ctrobust.errors import InputError
from ctrobust.specs.attack_fields import NORMS, Norm
from tests.attacks.apgd_states import ONE, Recorded

every_norm = pytest.mark.parametrize("norm", NORMS)
every_form = pytest.mark.parametrize("targets", [0, 3])


def norm_of(d: Tensor, norm: Norm) -> Tensor:
    return d.flatten(1).abs().amax(1) if norm == "linf" else d.flatten(1).square().sum(1).sqrt()


def net(C: int = 4, *, linear: bool = False, dtype: torch.dtype = ONE) -> nn.Sequential:
    """A fixed model of 12 pixels."""
    generator = torch.Generator().manual_seed(C)
    hidden = [nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, C)]
    model = nn.Sequential(nn.Flatten(), *([nn.Linear(12, C)] if linear else hidden))
    for parameter in model.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator)
    if linear:  # the boundaries pass near the centre of the box
        model[1].get_parameter("bias").data.div_(10).sub_(model[1].get_parameter("weight").sum(1).detach(), alpha=0.5)
    return model.to(dtype)


def batch(model: nn.Module, n: int = 24, *, inner: bool = False, dtype: torch.dtype = ONE) -> tuple[Tensor, Tensor]:
    """Images with the labels that the model predicts, some pixels on the sides of the box unless `inner`."""
    generator = torch.Generator().manual_seed(7)
    x = torch.rand(n, 1, 3, 4, generator=generator, dtype=ONE)
    x = 0.3 + 0.4 * x if inner else (1.4 * x - 0.2).clamp(0, 1)
    x = x.to(dtype)
    return x, model(x).argmax(1)


# A transcription of the paper's algorithm for one example, with projections by bisection.


def step_to_hyperplane(x: Tensor, normal: Tensor, value: float, norm: Norm) -> Tensor:
    """The step to the hyperplane within the box, or to its corner if the hyperplane does not meet the box."""
    against = -math.copysign(1, value) * (normal.sign() if norm == "linf" else normal)

    def moved(r: float) -> Tensor:
        return (x + r * against).clamp(0, 1) - x

    low, high = 0.0, 1 / (against[against != 0].abs().min().item())
    for _ in range(55):
        middle = (low + high) / 2
        met = (value + (normal * moved(middle)).sum().item()) * value <= 0
        low, high = (low, middle) if met else (middle, high)
    return moved(high)


def search(
    model: nn.Module, x: Tensor, y: int, begin: Tensor, target: int | None, attack: FAB
) -> tuple[list[Tensor], list[bool]]:
    """The points that are linearized and classified, in turn; and whether the classified ones are misclassified."""
    point, points, fooled = begin, list[Tensor](), list[bool]()
    length, dual = (math.inf, 1) if attack.norm == "linf" else (2, 2)

    def size(values: Tensor, order: float) -> float:
        return float(torch.linalg.vector_norm(values, order))

    for _ in range(attack.steps):
        leaf = point.clone().requires_grad_()
        logits = model(leaf[None])[0]
        planes = []
        for c in range(len(logits)) if target is None else [target]:
            if c != y:
                value = logits[c] - logits[y]
                planes.append((value.item(), torch.autograd.grad(value, leaf, retain_graph=True)[0]))
        value, w = min(planes, key=lambda plane: abs(plane[0]) / size(plane[1], dual))
        b = (w * point).sum().item() - value  # the hyperplane is w . z = b
        d_1 = step_to_hyperplane(point, w, value, attack.norm)
        d_2 = step_to_hyperplane(x, w, (w * x).sum().item() - b, attack.norm)
        lengths = size(d_1, length), size(d_2, length)
        a = min(lengths[0] / sum(lengths), attack.alpha_max)
        new = (1 - a) * (point + attack.overshoot * d_1) + a * (x + attack.overshoot * d_2)
        points, new = [*points, point], new.clamp(0, 1)
        points = [*points, new]
        fooled.append(model(new[None])[0].argmax().item() != y)
        point = x + attack.beta * (new - x) if fooled[-1] else new
    return points, fooled


@every_norm
@pytest.mark.parametrize("target", [0, 2])
@pytest.mark.parametrize(
    "fields", [{}, {"alpha_max": 0.4, "overshoot": 1.3, "beta": 0.6}, {"alpha_max": 0.0, "beta": 0.97}]
)
def test_iterates_agree_with_the_transcription(norm: Norm, target: int, fields: dict[str, float]) -> None:
    model = net()
    x, y = batch(model, 4)
    attack = FAB(0.0, steps=6, norm=norm, targets=target, **fields)  # type: ignore[arg-type]
    record = Recorded(model)
    state = AttackState(record, x, y)
    attack.stages()[-1].run(state)
    ours = torch.stack(record.seen[1:])  # after the clean pass; the last is the returned image
    ranks = state.clean.argsort(1, descending=True)
    outcomes = set[bool]()
    for i in range(len(x)):
        chosen = int(ranks[i, target]) if target else None
        points, fooled = search(model, x[i], int(y[i]), x[i], chosen, attack)
        torch.testing.assert_close(ours[:-1, i], torch.stack(points), rtol=0, atol=1e-9)
        outcomes |= set(fooled)
    assert outcomes == {True, False}
    assert torch.equal(state.found, x)
    assert not state.fooled.any()


@every_norm
def test_later_restarts_start_at_half_the_radius(norm: Norm) -> None:
    model = net()
    x, y = batch(model, 6, inner=True)
    keys = torch.tensor([5, 3, 900, -1, 2**40, 0])
    attack = FAB(1e-6, steps=3, norm=norm, targets=2, restarts=2, seed=4)
    stages = attack.stages()
    assert [(stage.restart, stage.target) for stage in stages] == [(0, 1), (0, 2), (1, 1), (1, 2)]
    starts = []
    for stage in stages:
        record = Recorded(model)
        state = AttackState(record, x, y, keys)
        stage.run(state)
        starts.append(record.seen[1])
        assert not state.fooled.any()
    assert torch.equal(starts[0], x)
    assert torch.equal(starts[1], x)
    for rank, start in ((1, starts[2]), (2, starts[3])):
        stream = draws.stream(4, "fab", 1, rank)
        t = draws.uniform(keys, stream, (12,)) * 2 - 1 if norm == "linf" else draws.normal(keys, stream, (12,))
        expected = x + 5e-7 * (t.to(ONE) / norm_of(t.to(ONE), norm)[:, None]).view_as(x)
        torch.testing.assert_close(start, expected, rtol=0, atol=1e-13)
        points, _ = search(model, x[0], int(y[0]), start[0], int(state.target(torch.tensor([0]), rank)), attack)
        if rank == 2:
            torch.testing.assert_close(record.seen[2][0], points[1], rtol=0, atol=1e-9)


def test_hand_computed_steps() -> None:
    # z_1 - z_0 = 2 a + b - 2, which is -1/2 at (.5, .5): the boundary is 1/6 away in linf.
    layer = nn.Linear(2, 2, dtype=ONE)
    layer.weight.data, layer.bias.data = torch.tensor([[0.0, 0], [2, 1]], dtype=ONE), torch.tensor([2.0, 0], dtype=ONE)
    x, y = torch.full((1, 2), 0.5, dtype=ONE), torch.tensor([0])
    for eps, pixel, forwards in ((0.176, 0.675, 2), (0.17, 0.667535545, 4), (0.1668, 0.6668, 6)):
        for targets in (0, 1):
            result = FAB(eps, steps=2, targets=targets).run(layer, x, y)
            assert result.success.item()
            assert result.x_adv[0].tolist() == pytest.approx([pixel] * 2, abs=1e-9)
            # One forward pass of the clean image, two per step, and one of the last image if no step succeeded.
            assert (result.forwards.item(), result.backwards.item()) == (min(1 + forwards, 6), min(forwards // 2, 2))
    assert not FAB(0.1666, steps=2).run(layer, x, y).success.item()


@every_norm
@every_form
@pytest.mark.parametrize("C", [2, 3, 6])
def test_success_if_eps_exceeds_the_distance_to_the_boundary(norm: Norm, targets: int, C: int) -> None:
    model = net(C, linear=True)
    x, y = batch(model, inner=True)
    weight, logits = model[1].get_parameter("weight").detach(), model(x).detach()
    slopes = weight[:, None] - weight[y]  # (C, n, 12)
    lengths = slopes.abs().sum(2) if norm == "linf" else slopes.norm(dim=2)
    nearest, other = ((logits.gather(1, y[:, None]) - logits) / lengths.T).nan_to_num(math.inf).min(1)
    slope = slopes[other, torch.arange(len(x))]
    unit = slope.sign() if norm == "linf" else slope / slope.norm(dim=1, keepdim=True)
    crossed = x.flatten(1) + 1.2 * nearest[:, None] * unit
    reachable = ((crossed > 0) & (crossed < 1)).all(1).nonzero()[:3, 0].tolist()
    assert len(reachable) == 3
    for i in reachable:
        for factor, fooled in ((0.999, False), (1.01, True)):
            attack = FAB(nearest[i].item() * factor, steps=6, norm=norm, targets=targets)
            assert attack.run(model, x[i : i + 1], y[i : i + 1]).success.tolist() == [fooled]


@every_norm
@every_form
def test_success_if_eps_exceeds_the_distance_within_the_box(norm: Norm, targets: int) -> None:
    model = net(2, linear=True)
    x, y = batch(model, 6)
    weight, logits = model[1].get_parameter("weight").detach(), model(x).detach()
    reached = set[bool]()
    for i in range(len(x)):
        slope, value = weight[1 - y[i]] - weight[y[i]], (logits[i, 1 - y[i]] - logits[i, y[i]]).item()
        d = step_to_hyperplane(x[i].flatten(), slope, value, norm)
        possible = value + slope @ d > -1e-9
        reached.add(bool(possible))
        length = norm_of(d[None], norm).item()
        for factor, fooled in ((0.999, False), (1.01, bool(possible))):
            attack = FAB(
                min(length * factor, 1.0) if norm == "linf" else length * factor, norm=norm, targets=targets, steps=6
            )
            assert attack.run(model, x[i : i + 1], y[i : i + 1]).success.tolist() == [fooled], (i, factor)
    assert True in reached


@every_norm
@every_form
@pytest.mark.parametrize("dtype", [torch.float32, ONE])
def test_images_are_in_ball_and_box(norm: Norm, targets: int, dtype: torch.dtype) -> None:
    model = net(dtype=dtype)
    x, y = batch(model, 40, dtype=dtype)
    y[:3] = (y[:3] + 1) % 4  # misclassified
    seen = set[bool]()
    for eps in (0.0, 1e-6, 0.05, 0.3):
        result = FAB(eps, steps=4, norm=norm, targets=targets, restarts=2).run(model, x, y)
        assert result.x_adv.dtype == dtype
        assert result.x_adv.min() >= 0
        assert result.x_adv.max() <= 1
        assert (norm_of(result.x_adv.double() - x.double(), norm) <= eps + 4 * torch.finfo(dtype).eps).all()
        assert torch.equal(result.success, model(result.x_adv).argmax(1) != y)
        assert torch.equal(result.x_adv[:3], x[:3])
        assert result.forwards[:3].tolist() == [1, 1, 1]
        seen |= set(result.success[3:].tolist())
    assert seen == {True, False}


@every_norm
def test_robust_examples_get_the_projected_last_iterate(norm: Norm) -> None:
    model = net()
    x, y = batch(model, 8)
    searched = [search(model, x[i], int(y[i]), x[i], None, FAB(0.0, steps=4, norm=norm))[0] for i in range(8)]
    nearest = torch.stack([norm_of(torch.stack(points[1::2]) - x[i], norm).amin() for i, points in enumerate(searched)])
    eps = nearest.min().item() / 2
    attack = FAB(eps, steps=4, norm=norm)
    result = attack.run(model, x, y)
    assert not result.success.any()
    for i in range(8):
        last = searched[i][-1] - x[i]
        cut = last.clamp(-eps, eps) if norm == "linf" else last * (eps / last.norm())
        torch.testing.assert_close(result.x_adv[i], (x[i] + cut).clamp(0, 1), rtol=0, atol=1e-9)


@every_norm
@every_form
def test_forward_and_backward_passes_are_counted(norm: Norm, targets: int) -> None:
    model = net(5)
    x, y = batch(model, 10)
    result = FAB(1e-4, steps=4, norm=norm, targets=targets, restarts=2).run(model, x, y)
    stages, planes = (2 * 3, 1) if targets else (2, 4)
    assert not result.success.any()
    assert result.forwards.tolist() == [1 + stages * (2 * 4 + 1)] * 10
    assert result.backwards.tolist() == [stages * 4 * planes] * 10
    known = FAB(1e-4, steps=4, norm=norm, targets=targets).run(model, x, y, clean_logits=model(x).detach())
    assert known.forwards.tolist() == [stages // 2 * (2 * 4 + 1)] * 10


@every_form
@every_norm
def test_outcomes_do_not_depend_on_the_batch(
    network: nn.Sequential, digits: tuple[Tensor, Tensor], norm: Norm, targets: int
) -> None:
    x, y, keys = digits[0][:40], digits[1][:40], torch.arange(40)
    attack = FAB(0.06 if norm == "linf" else 0.5, steps=3, norm=norm, targets=targets, restarts=2)
    whole = attack.run(network, x, y, keys)
    assert 0.1 < whole.success.double().mean() < 0.95
    some = torch.randperm(40, generator=torch.Generator().manual_seed(1))
    for indices in (*torch.split(some, 25), some[:7], some[7:8], keys[whole.success], keys[~whole.success]):
        stage = attack.run(network, x[indices], y[indices], keys[indices])
        for name in ("success", "forwards", "backwards"):
            assert torch.equal(getattr(stage, name), getattr(whole, name)[indices]), name
        torch.testing.assert_close(stage.x_adv, whole.x_adv[indices], rtol=0, atol=1e-9)


@every_form
@pytest.mark.parametrize(("norm", "eps"), [("linf", 0.06), ("l2", 0.5)])
def test_breaks_nearly_all_examples_that_pgd_breaks(
    network: nn.Sequential, digits: tuple[Tensor, Tensor], norm: Norm, eps: float, targets: int
) -> None:
    x, y = digits[0][:100], digits[1][:100]
    found = FAB(eps, steps=10, norm=norm, targets=targets).run(network, x, y).success
    other = PGD(eps, steps=20, step_size=eps / 8, loss="margin", norm=norm).run(network, x, y).success
    assert 0.3 < other.double().mean() < 0.95
    assert (found & other).sum() >= 0.97 * other.sum()


@pytest.mark.parametrize("shape", [(12,), (12, 1), (2, 3, 2), (1, 3, 1, 4)])
@every_norm
def test_images_of_any_shape(shape: tuple[int, ...], norm: Norm) -> None:
    model = net()
    x, y = batch(model)
    attack = FAB(0.1, steps=5, norm=norm, restarts=2)
    result, flat = attack.run(model, x.view(-1, *shape), y), attack.run(model, x, y)
    assert torch.equal(result.x_adv.view_as(x), flat.x_adv)
    assert torch.equal(result.success, flat.success)


def test_memory_layout_does_not_matter() -> None:
    model = net()
    x, y = batch(model)
    x = x.view(-1, 3, 2, 2)
    attack = FAB(0.1, steps=5, restarts=2)
    expected = attack(model, x, y)
    found = attack(model, x.contiguous(memory_format=torch.channels_last), y)
    assert torch.equal(found, expected)
    assert found.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("C", [2, 3])
@every_norm
def test_more_targets_than_wrong_classes(C: int, norm: Norm) -> None:
    model = net(C)
    x, y = batch(model)
    all_, most = (FAB(0.05, steps=5, norm=norm, targets=count).run(model, x, y) for count in (9, C - 1))
    assert torch.equal(all_.x_adv, most.x_adv)
    assert torch.equal(all_.forwards, most.forwards)
    assert all_.left_out == ()


class Flat(nn.Module):
    """A model of constant logits and zero gradient."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.tensor([1.0, 0.0, -1.0], dtype=x.dtype) + 0 * x.flatten(1).sum(1, keepdim=True)


@every_norm
@every_form
@pytest.mark.parametrize("dtype", [torch.float32, ONE])
def test_zero_gradients_leave_the_image(norm: Norm, targets: int, dtype: torch.dtype) -> None:
    x = torch.rand(4, 1, 2, 2, generator=torch.Generator().manual_seed(0)).to(dtype)
    result = FAB(0.1, steps=3, norm=norm, targets=targets).run(Flat(), x, torch.zeros(4, dtype=torch.int64))
    torch.testing.assert_close(result.x_adv, x, rtol=0, atol=1e-6)
    assert not result.success.any()
    other = FAB(0.1, steps=3, norm=norm, targets=targets, restarts=2).run(Flat(), x, torch.zeros(4, dtype=torch.int64))
    assert other.x_adv.isfinite().all()


def test_gradients_of_logit_differences() -> None:
    model = net()
    x, y = batch(model, 5)
    state = AttackState(model, x, y)
    index = torch.tensor([3, 1])
    found = list(state.boundaries(x[index], index))
    assert len(found) == 3
    for shift, (difference, gradient) in enumerate(found, start=1):
        for row, i in enumerate(index.tolist()):
            leaf = x[i : i + 1].clone().requires_grad_()
            logits = model(leaf)[0]
            expected = logits[(y[i] + shift) % 4] - logits[y[i]]
            torch.testing.assert_close(difference[row], expected.detach(), rtol=1e-12, atol=0)
            torch.testing.assert_close(gradient[row], torch.autograd.grad(expected, leaf)[0][0], rtol=1e-12, atol=1e-15)
    assert state.forwards.tolist() == [0, 1, 0, 1, 0]
    assert state.backwards.tolist() == [0, 3, 0, 3, 0]
    assert all(parameter.grad is None for parameter in model.parameters())


class Broken(nn.Module):
    """A model of finite logits whose gradient is NaN."""

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        root = (flat * 0).sqrt().sum(1, keepdim=True)
        return torch.cat([flat[:, :1] * 0 + 2, root], 1)


@pytest.mark.parametrize("targets", [0, 1])
def test_nan_gradients_are_refused(targets: int) -> None:
    x = torch.full((2, 3), 0.5, dtype=ONE)
    with pytest.raises(InputError, match="gradient with respect to the images is NaN"):
        FAB(0.1, steps=2, targets=targets)(Broken(), x, torch.zeros(2, dtype=torch.int64))


@every_form
@pytest.mark.filterwarnings("ignore:the model is in training mode")
def test_model_inputs_and_generator_are_unchanged(targets: int) -> None:
    inner = net()
    x, y = batch(inner, 6)
    model = nn.Sequential(nn.Dropout(0.2), *inner)
    copies, state = (x.clone(), y.clone()), torch.get_rng_state()
    with torch.no_grad():
        result = FAB(0.05, steps=11, targets=targets, restarts=2).run(model, x, y)
    assert model.training
    assert torch.equal(torch.get_rng_state(), state)
    assert all(parameter.grad is None and parameter.requires_grad for parameter in model.parameters())
    assert torch.equal(x, copies[0])
    assert torch.equal(y, copies[1])
    assert not result.x_adv.requires_grad


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"eps": 2.0}, "eps is for images in"),
        ({"eps": -1.0, "norm": "l2"}, "eps must be a finite number of at least 0; got -1.0"),
        ({"norm": "l1"}, "norm must be one of 'linf', 'l2'; got 'l1'"),
        ({"steps": 0}, "steps is a whole number of at least 1, got 0"),
        ({"restarts": 1.5}, "restarts is a whole number of at least 1, got 1.5"),
        ({"targets": -1}, "targets is a whole number of at least 0, got -1"),
        ({"targets": True}, "targets is a whole number of at least 0, got True"),
        ({"alpha_max": 1.5}, "alpha_max must be a finite number between 0 and 1; got 1.5"),
        ({"beta": -0.1}, "beta must be a finite number between 0 and 1; got -0.1"),
        ({"overshoot": 0.9}, "overshoot is finite and at least 1, got 0.9"),
        ({"overshoot": math.nan}, "overshoot is finite and at least 1, got nan"),
    ],
)
def test_invalid_fields_are_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        FAB(**{"eps": 0.1, **fields})  # type: ignore[arg-type]


def test_text_and_names() -> None:
    attack = FAB(8 / 255, steps=20, norm="l2", targets=3, restarts=5, alpha_max=0.2, overshoot=1.1, beta=0.8, seed=2)
    text = "fab:eps=8/255,steps=20,norm=l2,targets=3,restarts=5,alpha_max=0.2,overshoot=1.1,beta=0.8,seed=2"
    assert str(attack) == text
    assert parse(text) == attack
    assert parse("fab:eps=8/255") == FAB(8 / 255)
    assert parse("fab-t:eps=8/255") == FAB(8 / 255, targets=9)
    assert str(FAB(8 / 255).stages()[0]) == "fab:eps=8/255"
