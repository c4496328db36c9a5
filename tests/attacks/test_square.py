"""Square against a loop over pixels and closed forms of linear models; resumed runs."""

import copy
import itertools
from collections.abc import Callable, Mapping

import pytest
import torch
from torch import Tensor, nn

from ctrobust import draws
from ctrobust.attacks import PGD, Square, fuse, parse
from ctrobust.attacks.attack_state import AttackState, ResumeState
from ctrobust.attacks.square import CHUNK, HALVED_AFTER
from ctrobust.errors import InputError
from ctrobust.specs.attack_fields import Norm

FLOAT = torch.float64
both = pytest.mark.parametrize(("norm", "eps"), [("linf", 0.08), ("l2", 0.6)])


def linear(C: int, *shape: int, scale: float = 0.1) -> tuple[nn.Sequential, Tensor]:
    """A linear model with all |w_1 - w_0| at least .3 and other classes out of reach; and w_1 - w_0."""
    generator, size = torch.Generator().manual_seed(C), int(torch.tensor(shape).prod())
    layer = nn.Linear(size, C, dtype=FLOAT)
    layer.weight.data = scale * torch.randn(C, size, generator=generator, dtype=FLOAT)
    direction = torch.randn(size, generator=generator, dtype=FLOAT)
    direction += 0.3 * direction.sign()
    layer.weight.data[1] = layer.weight.data[0] + direction
    layer.bias.data = torch.tensor([2.0, 0.0] + [-60.0] * (C - 2), dtype=FLOAT)
    return nn.Sequential(nn.Flatten(), layer).eval(), direction.view(1, *shape)


def images(n: int, *shape: int) -> Tensor:
    """Random images, some pixels black or white."""
    x = torch.rand(n, *shape, generator=torch.Generator().manual_seed(n), dtype=FLOAT)
    return torch.where(x < 0.1, 0.0, torch.where(x > 0.9, 1.0, x))


def logit_decrease(logits: Tensor, y: Tensor, clean: Tensor) -> Tensor:
    """A loss as a Python function."""
    return (clean - logits).gather(1, y[:, None])[:, 0]


def labels(model: nn.Module, x: Tensor) -> Tensor:
    """The model's predictions."""
    with torch.no_grad():
        predicted: Tensor = model(x).argmax(1)
    return predicted


class Recorder(nn.Module):
    """Stores the inputs of a model; it cannot be copied, so attacks run on it and not on a fused copy."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.seen = inner, list[Tensor]()

    def __deepcopy__(self, memo: object) -> nn.Module:
        raise TypeError("one only")

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(x.detach().clone())
        logits: Tensor = self.inner(x)
        return logits


def test_schedule() -> None:
    attack = Square(0.1)
    for k, after in enumerate((10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)):
        assert attack.area_fraction(after) == 0.8 / (1, 2, 4, 8, 16, 32, 64, 128, 256)[k]
        assert attack.area_fraction(after + 1) == 0.8 / (2, 4, 8, 16, 32, 64, 128, 256, 512)[k]
    assert (attack.area_fraction(0), attack.area_fraction(10_001), attack.area_fraction(10**6)) == (
        0.8,
        0.8 / 512,
        0.8 / 512,
    )
    assert len(HALVED_AFTER) == 9


def test_rescaled_schedule() -> None:
    attack = Square(0.1, queries=1000, rescale=True, p=0.5)
    found = [query for query in range(1, 1000) if attack.area_fraction(query) < attack.area_fraction(query - 1)]
    assert found == [2, 6, 21, 51, 101, 201, 401, 601, 801]  # the first above 1, 5, 20, ... tenths of what they were
    assert [attack.area_fraction(query) for query in (1, 2, 6, 999)] == [0.5, 0.25, 0.125, 0.5 / 512]
    assert Square(0.1, queries=10_000, rescale=True).area_fraction(4001) == Square(0.1).area_fraction(4001)


@pytest.mark.parametrize(
    ("norm", "query", "height", "width", "side"),
    [("linf", 0, 32, 32, 29), ("linf", 11, 32, 32, 20), ("linf", 51, 28, 28, 13), ("linf", 4999, 28, 28, 2),
     ("linf", 9000, 28, 28, 1), ("linf", 0, 4, 25, 4), ("linf", 51, 4, 25, 4), ("linf", 0, 1, 1, 1),
     ("l2", 9000, 28, 28, 3), ("l2", 0, 2, 9, 2), ("l2", 11, 32, 32, 20)],
)  # fmt: skip
def test_side(norm: Norm, query: int, height: int, width: int, side: int) -> None:
    assert Square(0.1, norm=norm).side_length(query, height, width) == side


def plain_square(model: nn.Module, x: Tensor, y: int, key: int, attack: Square) -> tuple[Tensor, int]:
    """The published linf algorithm on one image (C, H, W), pixel by pixel; the image found and the queries made."""
    C, H, W = x.shape
    keys, stream = torch.tensor([key]), draws.stream(attack.seed, "square", 0)

    def random_signs(stream: int, count: int) -> list[int]:
        return [1 if bit else -1 for bit in draws.keep(keys, stream, count, 0.5)[0].tolist()]

    def margin(at: Tensor) -> float:
        logits = model(at[None]).detach()[0].tolist()
        return float(logits[y] - max(logits[:y] + logits[y + 1 :]))

    stripes = torch.tensor(random_signs(draws.stream(stream, "start"), C * W), dtype=FLOAT).view(C, 1, W)
    best = (x + attack.eps * stripes).clamp(0, 1)
    lowest = margin(best)
    for query in range(attack.queries):
        if lowest < 0:
            return best, query + 1
        chunk, number = draws.stream(stream, query // 64 * 64), query % 64
        word = int(draws.words(keys, draws.stream(chunk, "places"), 64)[0, number]) % 2**64
        side = min(max(round((attack.area_fraction(query) * H * W) ** 0.5), 1), H, W)
        top, left = (word % 2**32) * (H - side + 1) >> 32, (word >> 32) * (W - side + 1) >> 32
        signs = random_signs(draws.stream(chunk, "signs"), 64 * C)[number * C :][:C]
        new = best.clone()
        for c, r, k in itertools.product(range(C), range(top, top + side), range(left, left + side)):
            moved = best[c, r, k] + 2 * attack.eps * signs[c]
            new[c, r, k] = moved.clamp(x[c, r, k] - attack.eps, x[c, r, k] + attack.eps).clamp(0, 1)
        if (found := margin(new)) < lowest:
            best, lowest = new, found
    return best, attack.queries + 1


@pytest.mark.parametrize(("C", "H", "W"), [(1, 6, 6), (3, 4, 7)])
def test_agrees_with_the_published_algorithm(C: int, H: int, W: int) -> None:
    model, _ = linear(4, C, H, W)
    x, keys = images(6, C, H, W), torch.tensor([0, 5, -3, 2**40, 7, 8])
    y, attack = labels(model, x), Square(0.06, queries=90, seed=3)
    result = attack.run(model, x, y, keys)
    assert 0 < result.success.sum() < 6
    for i in range(6):
        expected, queries = plain_square(model, x[i], int(y[i]), int(keys[i]), attack)
        torch.testing.assert_close(result.x_adv[i], expected, rtol=0, atol=1e-12)
        # Besides the queries, one pass of the clean image and one of the original model to verify a success.
        assert result.forwards[i] == 1 + queries + int(result.success[i])


def test_finds_the_best_corner_of_a_linear_model() -> None:
    model, direction = linear(3, 2, 3, 4, scale=0.0)
    x = images(16, 2, 3, 4)
    y = torch.zeros(16, dtype=torch.int64)
    best = (x + 0.01 * direction.sign()).clamp(0, 1)
    for p, queries in ((0.0, 300), (0.8, 1200)):  # single pixels, and squares that become single pixels
        result = Square(0.01, queries=queries, p=p).run(model, x, y)
        active = ~result.success
        assert active.sum() > 4
        assert torch.equal(result.success, labels(model, best) != 0)
        torch.testing.assert_close(result.x_adv[active], best[active], rtol=0, atol=1e-15)


def test_success_if_eps_exceeds_the_distance_to_the_boundary() -> None:
    model, direction = linear(3, 1, 3, 3, scale=0.0)
    x = 0.4 + 0.2 * images(40, 1, 3, 3)
    logits = model(x).detach()
    distance = (logits[:, 0] - logits[:, 1]) / direction.abs().sum()
    reachable = ((distance > 1e-3) & (distance < 0.3)).nonzero()[:4, 0].tolist()
    assert len(reachable) == 4
    for i in reachable:
        for factor, fooled in ((1 - 1e-9, False), (1 + 1e-9, True)):
            attack = Square(distance[i].item() * factor, queries=300, p=0.1)
            found = attack.run(model, x[i : i + 1], torch.zeros(1, dtype=torch.int64)).success
            assert found.tolist() == [fooled]


def test_l2_perturbation_is_along_the_gradient_of_a_linear_model() -> None:
    model, direction = linear(2, 3, 10, 10, scale=0.0)
    direction = (torch.arange(10, dtype=FLOAT) * 0.6).cos().expand(1, 3, 10, 10)  # bumps do not fit single pixels
    model[1].get_parameter("weight").data = torch.stack([0 * direction.flatten(), direction.flatten()])
    x = 0.5 + 0.02 * (images(16, 3, 10, 10) - 0.5)
    y, eps = labels(model, x), 0.01
    result = Square(eps, queries=600, norm="l2").run(model, x, y)
    active = ~result.success
    assert active.sum() > 8
    moved = (result.x_adv - x)[active].flatten(1) @ direction.flatten()
    cosine = torch.where(y[active] == 0, moved, -moved) / (eps * direction.norm())
    assert cosine.max() <= 1
    assert cosine.min() > 0.45  # a random perturbation has 0.06, the authors' code 0.46 on average


@both
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(1, 14, 14), (3, 9, 6), (2, 1, 7), (70, 2, 3), (1, 1, 1)])
def test_every_candidate_is_in_ball_and_box(norm: Norm, eps: float, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    inner, _ = linear(3, *shape, scale=1.0)
    x = images(5, *shape).to(dtype)
    model = Recorder(inner.to(dtype)).eval()
    for radius in (eps, 0.0, 1.0):
        model.seen.clear()
        y = labels(inner, x)
        result = Square(radius, queries=70, norm=norm).run(model, x, y)
        for seen in [*model.seen, result.x_adv]:
            assert seen.dtype == dtype
            assert 0 <= seen.min() <= seen.max() <= 1
            if len(seen) == 5:
                offset = (seen.double() - x.double()).flatten(1)
                far = offset.abs().amax(1) if norm == "linf" else offset.norm(dim=1)
                assert far.max() <= radius + 4 * torch.finfo(dtype).eps
        assert torch.equal(result.success, labels(inner, result.x_adv) != y)


@both
def test_eps_zero_returns_the_image(
    network: nn.Sequential, digits: tuple[Tensor, Tensor], norm: Norm, eps: float
) -> None:
    x, y = digits[0][:20], digits[1][:20]
    result = Square(0.0, queries=70, norm=norm).run(network, x, y)
    torch.testing.assert_close(result.x_adv, x, rtol=0, atol=1e-15)
    assert torch.equal(result.success, labels(network, x) != y)
    assert not torch.equal(Square(eps, queries=70, norm=norm)(network, x, y), x)


@both
def test_a_large_eps_breaks_nearly_all_examples(
    network: nn.Sequential, digits: tuple[Tensor, Tensor], norm: Norm, eps: float
) -> None:
    x, y = digits[0][:100], digits[1][:100]
    few, many = (Square(eps * factor, queries=400, norm=norm).run(network, x, y).success for factor in (1, 5))
    assert 0.1 < few.double().mean() < 0.9
    assert many.double().mean() > 0.97


@pytest.mark.parametrize(
    ("norm", "eps", "loss"), [("linf", 0.08, "margin"), ("linf", 0.08, "ce"), ("l2", 0.6, "margin")]
)
def test_outcomes_do_not_depend_on_the_batch(
    network: nn.Sequential, digits: tuple[Tensor, Tensor], norm: Norm, eps: float, loss: str
) -> None:
    x, y, keys = digits[0][:60], digits[1][:60], torch.arange(60) * 11 - 100
    attack = Square(eps, queries=100, norm=norm, loss=loss)
    whole = attack.run(network, x, y, keys)
    assert 0.1 < whole.success.double().mean() < 0.9
    some = torch.randperm(60, generator=torch.Generator().manual_seed(1))
    for indices in (*torch.split(some, 25), some[:7], some[7:8], whole.success.nonzero()[:, 0]):
        stage = attack.run(network, x[indices], y[indices], keys[indices])
        for name in ("x_adv", "success", "forwards", "backwards"):
            assert torch.equal(getattr(stage, name), getattr(whole, name)[indices]), name


@both
def test_more_queries_break_more_examples(
    network: nn.Sequential, digits: tuple[Tensor, Tensor], norm: Norm, eps: float
) -> None:
    x, y = digits[0][:80], digits[1][:80]
    fewer, more = (Square(eps, queries=queries, norm=norm).run(network, x, y) for queries in (90, 300))
    assert (fewer.success <= more.success).all()
    assert fewer.success.sum() < more.success.sum()
    assert torch.equal(fewer.x_adv[fewer.success], more.x_adv[fewer.success])
    # An example that is broken at a query needs exactly that many queries.
    last = (
        int(more.forwards[more.success].max()) - 3
    )  # the clean image, the start, and the verification by the original model
    position = int((more.success & (more.forwards == last + 3)).nonzero()[0])
    for queries, fooled in ((last, True), (last - 1, False)):
        one = Square(eps, queries=queries, norm=norm)
        keys = torch.tensor([position])
        assert one.run(network, x[keys], y[keys], keys).success.tolist() == [fooled]


@both
def test_forward_passes_are_counted(
    network: nn.Sequential, digits: tuple[Tensor, Tensor], norm: Norm, eps: float
) -> None:
    x, y = digits[0][:60], digits[1][:60]
    right, model = labels(network, x) == y, Recorder(network).eval()
    result = Square(eps, queries=100, norm=norm).run(model, x, y)
    active = ~result.success
    assert active.any()
    assert (result.forwards[active] == 102).all()
    assert (result.forwards[right & result.success] < 102).any()
    assert (result.forwards[~right] == 1).all()
    assert torch.equal(result.x_adv[~right], x[~right])
    assert not result.backwards.any()
    # The first two calls test whether the model can be copied; broken examples are not evaluated again.
    assert sum(len(seen) for seen in model.seen[2:]) == result.forwards.sum()
    known = Square(eps, queries=100, norm=norm).run(model, x, y, clean_logits=network(x).detach())
    assert torch.equal(known.forwards, result.forwards - 1)


def test_loss_increases_with_queries() -> None:
    model, _ = linear(3, 1, 6, 6, scale=0.0)
    x, y = images(8, 1, 6, 6), torch.zeros(8, dtype=torch.int64)
    found = [Square(0.01, queries=queries).run(model, x, y).x_adv for queries in (1, 20, 80)]
    margins = [model(adv).detach()[:, 1] - model(adv).detach()[:, 0] for adv in found]
    for before, after in itertools.pairwise(margins):
        assert (before <= after).all()
    assert (margins[0] < margins[2]).any()


@both
def test_targeted_reaches_the_given_class(
    network: nn.Sequential, digits: tuple[Tensor, Tensor], norm: Norm, eps: float
) -> None:
    x = digits[0][:40]
    predicted = labels(network, x)
    target = (predicted + 1) % 10
    target[0] = predicted[0]
    result = Square(3 * eps, queries=300, norm=norm, targeted=True).run(network, x, target)
    assert torch.equal(result.success, labels(network, result.x_adv) == target)
    assert 0.3 < result.success.double().mean() < 1
    assert torch.equal(result.x_adv[0], x[0])


@both
@pytest.mark.parametrize("loss", ["ce", "margin", "kl", logit_decrease])
def test_two_classes_and_other_losses(norm: Norm, eps: float, loss: str | Callable[..., Tensor]) -> None:
    model, _ = linear(2, 3, 6, 5, scale=0.0)
    x = images(12, 3, 6, 5)
    y = labels(model, x)
    result = Square(eps, queries=150, norm=norm, loss=loss).run(model, x, y)
    assert result.success.any()
    assert torch.equal(result.success, labels(model, result.x_adv) != y)


def test_some_losses_need_three_classes() -> None:
    assert (Square(0.1).least_classes(), Square(0.1, loss="dlr").least_classes()) == (2, 3)
    model, _ = linear(2, 1, 4, 4)
    with pytest.raises(InputError, match=r"this loss needs at least 3 classes; got 2"):
        Square(1e-4, loss="dlr")(model, images(3, 1, 4, 4), labels(model, images(3, 1, 4, 4)))


@both
def test_constant_logits_leave_the_start(norm: Norm, eps: float) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 3, dtype=FLOAT)).eval()
    model[1].get_parameter("weight").data.zero_()
    x = images(4, 3, 4, 4)
    attack, model_y = Square(eps, queries=70, norm=norm), labels(model, x)
    result = attack.run(model, x, model_y)
    assert not result.success.any()
    # No candidate increases the loss, so none is accepted.
    assert torch.equal(result.x_adv, Square(eps, queries=1, norm=norm)(model, x, model_y))


@both
def test_restarts_use_other_draws(
    network: nn.Sequential, digits: tuple[Tensor, Tensor], norm: Norm, eps: float
) -> None:
    x, y = digits[0][:60], digits[1][:60]
    one, two = (Square(eps, queries=70, norm=norm, restarts=restarts).run(network, x, y) for restarts in (1, 2))
    assert (one.success <= two.success).all()
    assert one.success.sum() < two.success.sum()
    assert torch.equal(one.x_adv[one.success], two.x_adv[one.success])
    active = ~two.success
    assert not (one.x_adv == two.x_adv)[active].flatten(1).all(1).any()
    assert (two.forwards[active] == 1 + 2 * 71).all()
    other = Square(eps, queries=70, norm=norm, seed=1).run(network, x, y)
    assert not (one.x_adv == other.x_adv)[~one.success & ~other.success].flatten(1).all(1).any()


class StoppedError(Exception):
    """Raised by the resume state of a test to interrupt the attack."""


class InterruptingState(ResumeState):
    """Stores every `every`-th snapshot in memory, and interrupts the attack at the fraction `stop`."""

    def __init__(self, stop: float, snapshot: dict[str, Tensor] | None = None, every: int = 1) -> None:
        self.stop, self.snapshot, self.every, self.writes = stop, snapshot, every, 0
        self.reported: list[float] = []

    def read(self) -> dict[str, Tensor] | None:
        return self.snapshot

    def write(self, state: Callable[[], Mapping[str, Tensor]]) -> None:
        self.writes += 1
        if self.writes % self.every == 0:
            self.snapshot = dict(state())

    def report_progress(self, share: float) -> None:
        self.reported.append(share)
        if share >= self.stop:
            raise StoppedError


def outcome(state: AttackState) -> list[Tensor]:
    return [state.found, state.fooled, state.forwards, state.backwards]


@both
@pytest.mark.parametrize(("every", "use_fused"), [(1, True), (2, False)])
def test_a_resumed_search_gives_the_same_bits(
    network: nn.Sequential, digits: tuple[Tensor, Tensor], norm: Norm, eps: float, every: int, use_fused: bool
) -> None:
    x, y, keys = digits[0][:24].float(), digits[1][:24], torch.arange(24) + 7
    original = copy.deepcopy(network).float()
    model, stage = fuse(original, x) if use_fused else original, Square(eps, queries=200, norm=norm).stages()[0]
    assert (model is original) is not use_fused
    resume_state = InterruptingState(2.0)
    whole = AttackState(model, x, y, keys, resume_state=resume_state)
    stage.run(whole)
    assert resume_state.reported == [64 / 200, 128 / 200, 192 / 200, 1.0]
    assert 0.2 < whole.fooled.double().mean() < 0.9
    for stops in ([0.3], [1.0], [0.3, 0.6, 0.9]):
        snapshot: dict[str, Tensor] | None = None
        for stop in stops:
            resume_state = InterruptingState(stop, snapshot, every)
            with pytest.raises(StoppedError):
                stage.run(AttackState(model, x, y, keys, resume_state=resume_state))
            snapshot = resume_state.snapshot
        resume_state = InterruptingState(2.0, snapshot)
        again = AttackState(model, x, y, keys, resume_state=resume_state)
        stage.run(again)
        for found, expected in zip(outcome(again), outcome(whole), strict=True):
            assert torch.equal(found, expected)
        done = 0 if snapshot is None else int(snapshot["query"])
        assert len(resume_state.reported) == -(-(200 - done) // CHUNK)
        assert snapshot is None or done > 0


def test_resumes_the_second_restart_and_ignores_snapshots_of_the_first(
    network: nn.Sequential, digits: tuple[Tensor, Tensor]
) -> None:
    x, y = digits[0][:40], digits[1][:40]
    first, second = Square(0.08, queries=150, restarts=2).stages()
    whole = AttackState(network, x, y)
    first.run(whole)
    resume_state = InterruptingState(2.0)
    interrupted = AttackState(network, x, y, resume_state=resume_state)
    first.run(interrupted)
    snapshot, resume_state.stop = dict(resume_state.snapshot or {}), 0.7
    with pytest.raises(StoppedError):  # the snapshot of the first restart is not used by the second
        second.run(interrupted)
    assert resume_state.reported == [64 / 150, 128 / 150, 1.0, 64 / 150, 128 / 150]
    second.run(whole)
    again = AttackState(network, x, y, resume_state=InterruptingState(2.0, resume_state.snapshot))
    second.run(again)
    for found, expected in zip(outcome(again), outcome(whole), strict=True):
        assert torch.equal(found, expected)
    assert int(snapshot["query"]) == 150


def test_snapshots_are_copies(network: nn.Sequential, digits: tuple[Tensor, Tensor]) -> None:
    resume_state = InterruptingState(2.0, every=2)
    state = AttackState(network, digits[0][:20], digits[1][:20], resume_state=resume_state)
    Square(0.08, queries=150).stages()[0].run(state)
    snapshot = resume_state.snapshot
    assert snapshot is not None
    assert int(snapshot["query"]) == 128
    assert snapshot["forwards"].max() == 1 + 1 + 128
    assert state.forwards.max() == 1 + 1 + 150
    assert not torch.equal(snapshot["found"], state.found)


@pytest.mark.parametrize(
    ("make", "message"),
    [(lambda: Square(2.0), "eps is for images"), (lambda: Square(0.1, queries=0), "queries is a whole number"),
     (lambda: Square(0.1, restarts=0), "restarts is a whole number"),
     (lambda: Square(0.1, p=1.5), "p must be a finite number between 0"),
     (lambda: parse("square:eps=1,norm=l1"), "norm must be one of"),
     (lambda: Square(0.1, loss="x"), "unknown loss 'x'"),
     (lambda: Square(0.1, loss="std", targeted=True), "an attack with targeted=true uses a loss of ce, "),
     (lambda: parse("square:queries=5"), "'square' needs eps")],
)  # fmt: skip
def test_invalid_fields_are_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


@pytest.mark.parametrize("shape", [(3, 16), (3, 4, 4), (3, 1, 1, 4, 4)])
def test_inputs_that_are_not_images_are_refused(shape: tuple[int, ...]) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    with pytest.raises(InputError, match=r"Square needs images of shape \(N, C, H, W\), got \(3, "):
        Square(0.1)(model, torch.rand(shape), torch.zeros(3, dtype=torch.int64))


def test_no_gradients_are_computed(network: nn.Sequential, digits: tuple[Tensor, Tensor]) -> None:
    class NoGrad(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            assert not torch.is_grad_enabled()
            logits: Tensor = network(x)
            return logits

    x, y = digits[0][:5], digits[1][:5]
    before = x.clone()
    attack = Square(0.05, queries=9)  # too few for a fused copy
    found = attack(NoGrad().eval(), x, y)
    assert torch.equal(x, before)
    assert found.data_ptr() != x.data_ptr()
    assert all(parameter.grad is None for parameter in network.parameters())


def test_is_weaker_than_pgd(network: nn.Sequential, digits: tuple[Tensor, Tensor]) -> None:
    x, y = digits[0][:100], digits[1][:100]
    pgd = PGD(0.08, steps=40, loss="margin", restarts=2).run(network, x, y).success
    square = Square(0.08, queries=1000).run(network, x, y).success
    assert square.sum() <= pgd.sum()
    assert square.sum() > 0.7 * pgd.sum()


def test_text() -> None:
    attack = Square(8 / 255, queries=1000, norm="l2", p=0.3, rescale=True, restarts=2, targeted=True, loss="ce", seed=4)
    text = "square:eps=8/255,queries=1000,norm=l2,p=0.3,rescale=true,restarts=2,targeted=true,loss=ce,seed=4"
    assert str(attack) == text
    assert parse(text) == attack
    assert parse("square:eps=0.3") == Square(0.3)
    assert (Square(0.3).steps, Square(0.3, queries=7).steps) == (5000, 7)
    assert [str(stage) for stage in Square(0.3, restarts=2).stages()] == [
        "square:eps=0.3,restarts=2",
        "square:eps=0.3,restarts=2 restart 2",
    ]
