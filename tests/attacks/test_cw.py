"""CW against closed forms of linear models, and written out with torch's Adam, one example at a time."""

import dataclasses

import pytest
import torch
from torch import Tensor, nn

from ctrobust.attacks import CW, PGD, parse
from ctrobust.attacks.cw import Form
from ctrobust.attacks.projections import Norm
from ctrobust.errors import InputError

NORMS = pytest.mark.parametrize("norm", ["linf", "l2"])


def length(offset: Tensor, norm: Norm) -> Tensor:
    flat = offset.flatten(1)
    return flat.abs().amax(1) if norm == "linf" else flat.square().sum(1).sqrt()


def lead(logits: Tensor, y: Tensor, targeted: bool) -> Tensor:
    """How far the attack is: positive where it succeeds."""
    original = logits.gather(1, y[:, None])[:, 0]
    other = logits.scatter(1, y[:, None], -torch.inf).amax(1)
    return original - other if targeted else other - original


class Tries:
    """One example's images by torch.optim.Adam, differentiated through everything."""

    def __init__(self, model: nn.Module, x: Tensor, y: Tensor, lr: float, targeted: bool) -> None:
        self.model, self.x, self.y, self.targeted = model, x[None], y[None], targeted
        self.place = torch.atanh((2 * self.x - 1) * 0.999999).requires_grad_()
        self.optimizer = torch.optim.Adam([self.place], lr=lr)

    def image(self) -> Tensor:
        return (self.place.tanh() + 1) / 2

    def missing(self) -> Tensor:
        return (-lead(self.model(self.image()), self.y, self.targeted)).clamp(min=0).sum()

    def step(self, loss: Tensor) -> tuple[Tensor, bool]:
        self.optimizer.zero_grad()
        torch.autograd.backward(loss, inputs=[self.place])
        self.optimizer.step()
        image = self.image().detach()
        right = bool(self.model(image).argmax(1) == self.y)
        return image, right == self.targeted


def linf_by_hand(model: nn.Module, x: Tensor, y: Tensor, attack: CW) -> tuple[Tensor | None, int]:
    """The image that fools inside the ball, if any, and how many steps it took."""
    tau, c, made = 1.0, 1e-5, 0
    while True:
        tries, reached, pressed = Tries(model, x, y, attack.lr, attack.targeted), [], False
        for _ in range(attack.steps):
            excess = (tries.image() - tries.x).abs() - tau
            pressed = pressed or bool((excess > 0).any())
            image, fooled = tries.step(tries.missing() + excess.clamp(min=0).sum() / c)
            made += 1
            far = length(image - tries.x, "linf").item()
            if fooled and far <= attack.eps:
                return image[0], made
            reached += [far] if fooled else []
        if reached:
            tau = 0.9 * min(tau, *reached)
            if tau <= 1 / 256:
                return None, made
        else:
            c *= 2
            if c >= 20 or not pressed:
                return None, made


def l2_by_hand(model: nn.Module, x: Tensor, y: Tensor, attack: CW) -> tuple[Tensor | None, int]:
    low, high, c, made = 0.0, 1e10, 1e-3, 0
    for _ in range(attack.searches):
        tries, any_fooled, before = Tries(model, x, y, attack.lr, attack.targeted), False, float("inf")
        for step in range(1, attack.steps + 1):
            loss = (tries.image() - tries.x).square().sum() + c * tries.missing()
            image, fooled = tries.step(loss)
            made += 1
            any_fooled = any_fooled or fooled
            far = length(image - tries.x, "l2").item()
            if fooled and far <= attack.eps:
                return image[0], made
            if step % (attack.steps // 10) == 0:
                now = far**2 + c * tries.missing().item()
                if now > 0.9999 * before:
                    break
                before = now
        low, high = (low, c) if any_fooled else (c, high)
        c = (low + high) / 2 if high < 1e10 else 10 * c
    return None, made


@pytest.fixture
def grey(network: nn.Sequential, digits: tuple[Tensor, Tensor]) -> tuple[nn.Module, Tensor, Tensor]:
    """The digits on grey, which move in tanh space, and the network for them."""

    class Wide(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network

        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = self.inner((x - 0.2) / 0.6)
            return logits

    return Wide().eval(), 0.2 + 0.6 * digits[0], digits[1]


WRITTEN_OUT = [
    CW(0.02),
    CW(0.035),
    CW(0.06, steps=7, lr=0.02),
    CW(0.08, steps=12, lr=0.03, targeted=True),
    CW(0.3, norm="l2", steps=20, searches=4, lr=0.02),
    CW(0.2, norm="l2", steps=10, lr=0.03),
    CW(0.6, norm="l2", steps=20, searches=5, lr=0.03, targeted=True),
]


@pytest.mark.parametrize("attack", WRITTEN_OUT, ids=str)
def test_written_out(grey: tuple[nn.Module, Tensor, Tensor], attack: CW) -> None:
    model, x, y = grey
    some = slice(0, 3) if attack.targeted else slice(0, 7)
    x, y = x[some], y[some]
    label = (y + 1) % 10 if attack.targeted else y
    result = attack.run(model, x, label)
    clean = (model(x).argmax(1) == label) == attack.targeted
    assert not clean.all()
    by_hand = linf_by_hand if attack.norm == "linf" else l2_by_hand
    found = []
    for i in range(len(x)):
        if clean[i]:
            assert result.success[i]
            assert torch.equal(result.x_adv[i], x[i])
            continue
        image, made = by_hand(model, x[i], label[i], attack)
        found.append(image is not None)
        if image is not None:
            assert result.success[i]
            torch.testing.assert_close(result.x_adv[i], image, rtol=0, atol=1e-7)
        # The clean pass, one at the start, one after each step; what withstood is judged in the ball; and where a copy
        # of the model was attacked, the model confirms.
        confirmed = int(attack.steps >= 10 and bool(result.success[i]))
        assert result.forwards[i] == 2 + made + (image is None) + confirmed
        assert result.backwards[i] == 1 + made
    if attack in WRITTEN_OUT[:2]:
        assert any(found)
        assert not all(found)


def linear(C: int = 2) -> tuple[nn.Sequential, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Grey images of class 0 of a linear model; the nearest other class is 1; both distances to it."""
    generator = torch.Generator().manual_seed(C)
    layer = nn.Linear(12, C, dtype=torch.float64)
    layer.weight.data = 0.1 * torch.randn(C, 12, generator=generator, dtype=torch.float64)
    layer.weight.data[1] = torch.tensor([0.6, -0.9] * 6, dtype=torch.float64)
    layer.weight.data[0] = torch.tensor([-0.4, 0.1, 0.0, 0.2] * 3, dtype=torch.float64)
    layer.bias.data = torch.tensor([-0.4, 0.0] + [-60.0] * (C - 2), dtype=torch.float64)
    x = 0.48 + 0.04 * torch.rand(12, 1, 3, 4, generator=generator, dtype=torch.float64)
    model = nn.Sequential(nn.Flatten(), layer).eval()
    logits = model(x).detach()
    gap, slope = logits[:, 0] - logits[:, 1], layer.weight.detach()[1] - layer.weight.detach()[0]
    assert gap.min() > 0
    return model, x, torch.zeros(12, dtype=torch.int64), gap / slope.abs().sum(), gap / slope.norm(), slope.view(3, 4)


@NORMS
@pytest.mark.parametrize("form", ["tanh", "pgd"])
@pytest.mark.parametrize(("C", "targeted"), [(2, False), (3, True), (3, False)])
def test_distance_to_the_boundary_of_a_linear_model(norm: Norm, form: Form, C: int, targeted: bool) -> None:
    model, x, y, linf, l2, _ = linear(C)
    distance = linf if norm == "linf" else l2
    # Steps much smaller than the distances, which are about .04 and .13.
    steps, lr = (30, 0.003) if norm == "linf" else (100, 0.004)
    for factor, fooled in ((0.99, False), (1.06, True)):
        attack = CW(distance[0].item() * factor, norm, form, steps, lr, targeted=targeted)
        result = attack.run(model, x[:1], y[:1] + int(targeted))
        assert result.success.tolist() == [fooled]
        assert length(result.x_adv - x[:1], norm).item() <= attack.eps * (1 + 1e-12)


def test_the_nearest_image_in_l2_is_approached() -> None:
    model, x, y, _, distance, slope = linear()
    # Inside no ball of almost no size; the nearest image that fools lies in the direction of the boundary.
    attack = CW(0.01, norm="l2", steps=300, lr=0.002)
    offset = attack.run(model, x, y).x_adv - x
    torch.testing.assert_close(length(offset, "l2"), torch.full_like(distance, 0.01), rtol=1e-9, atol=0)
    along = (offset * slope).flatten(1).sum(1) / slope.norm() / 0.01
    assert along.min() > 0.99


@NORMS
def test_who_withstands_gets_an_image_in_the_ball(grey: tuple[nn.Module, Tensor, Tensor], norm: Norm) -> None:
    model, x, y = grey
    eps = 0.02 if norm == "linf" else 0.15
    attack, x, y = CW(eps, norm=norm, steps=10, searches=4, lr=0.03), x[:25], y[:25]
    result = attack.run(model, x, y)
    assert 0.05 < result.success.double().mean() < 0.9
    moved = length(result.x_adv - x, norm)
    assert moved.max() <= eps * (1 + 1e-12)
    assert result.x_adv.min() >= 0
    assert result.x_adv.max() <= 1
    assert (moved[~result.success] > 0.5 * eps).all()
    assert torch.equal(model(result.x_adv).argmax(1) != y, result.success)
    assert torch.equal(attack(model, x, y), result.x_adv)


@NORMS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_black_and_white_images(norm: Norm, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(6, 1, 3, 4, generator=generator).round().to(dtype)
    layer = nn.Linear(12, 3, bias=False, dtype=dtype)
    layer.weight.data = torch.randn(3, 12, generator=generator).to(dtype)
    model = nn.Sequential(nn.Flatten(), layer).eval()
    y = model(x).argmax(1)
    # Only by many large steps do such pixels get out of their corners.
    for eps, steps, lr in ((0.0, 3, 0.01), (0.3, 3, 0.01), (1.0, 30 if norm == "linf" else 100, 0.3)):
        result = CW(eps, norm=norm, steps=steps, lr=lr).run(model, x, y)
        assert result.x_adv.isfinite().all()
        assert result.x_adv.min() >= 0
        assert result.x_adv.max() <= 1
        assert length(result.x_adv - x, norm).max() <= eps + 4 * torch.finfo(dtype).eps
        assert torch.equal(model(result.x_adv).argmax(1) != y, result.success)
        assert result.success.double().mean() > 0.5 if eps == 1.0 else not result.success.any()


@NORMS
def test_a_model_without_gradient_ends(norm: Norm) -> None:
    class Still(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.tensor([2.0, 0.0, 0.0]) + 0 * x.flatten(1)[:, :3]

    x = torch.full((2, 1, 2, 2), 0.3)
    result = CW(0.2, norm=norm, steps=20).run(Still(), x, torch.zeros(2, dtype=torch.int64))
    assert not result.success.any()
    assert (result.x_adv - x).abs().max() < 0.01


def test_a_round_of_steps_and_no_more_where_c_does_not_matter() -> None:
    # Further from the boundary than ten steps lead: the clean pass, one at the start, ten, and the judge's.
    model, x, y, *_ = linear()
    model.get_parameter("1.bias").data[0] += 9.0
    result = CW(0.2).run(model.train(), x, y)
    assert not result.success.any()
    assert result.forwards.tolist() == [13] * 12
    assert result.backwards.tolist() == [11] * 12
    assert (length(result.x_adv - x, "linf") - 0.05).abs().max() < 2e-3
    unjudged = CW(0.2)(model, x, y)
    assert torch.equal(unjudged, result.x_adv)


def test_counted_is_what_the_model_saw(grey: tuple[nn.Module, Tensor, Tensor]) -> None:
    model, x, y = grey
    x, y = x[:25], y[:25]
    with torch.no_grad():
        clean = model(x)
    calls: list[int] = []
    handle = model.register_forward_hook(lambda _, inputs, __: calls.append(len(inputs[0])))
    try:
        for attack in (CW(0.03, steps=5), CW(0.2, norm="l2", steps=8, searches=3), CW(0.03, form="pgd", steps=5)):
            for given in (clean, None):
                calls.clear()
                result = attack.run(model, x, y, clean_logits=given)
                assert result.forwards.sum() == sum(calls)
                misclassified = clean.argmax(1) != y
                assert (result.forwards[misclassified] == (given is None)).all()
                assert not result.backwards[misclassified].any()
                assert torch.equal(model(result.x_adv).argmax(1) != y, result.success)
    finally:
        handle.remove()


@NORMS
def test_outcomes_do_not_depend_on_the_batch(grey: tuple[nn.Module, Tensor, Tensor], norm: Norm) -> None:
    model, x, y = grey
    x, y, keys = x[:30], y[:30], torch.arange(30)
    attack = CW(0.03, steps=8) if norm == "linf" else CW(0.25, norm="l2", steps=10, searches=4, lr=0.03)
    whole = attack.run(model, x, y, keys)
    assert 0.1 < whole.success.double().mean() < 0.9
    some = torch.randperm(30, generator=torch.Generator().manual_seed(1))
    for indices in (some[:7], some[7:8], keys[whole.success], keys[~whole.success]):
        stage = attack.run(model, x[indices], y[indices], keys[indices])
        for name in ("success", "forwards", "backwards"):
            assert torch.equal(getattr(stage, name), getattr(whole, name)[indices]), name
        torch.testing.assert_close(stage.x_adv, whole.x_adv[indices], rtol=0, atol=1e-9)


@NORMS
def test_confidence_goes_on_beyond_the_boundary(norm: Norm) -> None:
    model, x, y, *_ = linear()
    eps = 0.2 if norm == "linf" else 0.6
    attack = CW(eps, norm=norm, steps=60)
    for confidence in (0.0, 0.3):
        result = dataclasses.replace(attack, confidence=confidence).run(model, x, y)
        ahead = lead(model(result.x_adv), y, targeted=False)
        assert result.success.all()
        assert ahead.min() >= confidence
        assert ahead.max() < confidence + 0.3
    # What fools without reaching the confidence still counts.
    modest = dataclasses.replace(attack, confidence=1e3).run(model, x, y)
    assert modest.success.all()
    assert length(modest.x_adv - x, norm).max() <= eps


@NORMS
@pytest.mark.parametrize("targeted", [False, True])
def test_form_pgd_is_pgd_on_the_margin(grey: tuple[nn.Module, Tensor, Tensor], norm: Norm, targeted: bool) -> None:
    model, x, y = grey
    eps = 0.05 if norm == "linf" else 0.4
    label = (y + 1) % 10 if targeted else y
    ours = CW(eps, norm=norm, form="pgd", targeted=targeted, seed=3).run(model, x, label)
    pgd = PGD(eps, steps=20, loss="margin", norm=norm, targeted=targeted, seed=3).run(model, x, label)
    for name in ("x_adv", "success", "forwards", "backwards"):
        assert torch.equal(getattr(ours, name), getattr(pgd, name)), name


def test_targeted_reaches_classes_of_a_network(grey: tuple[nn.Module, Tensor, Tensor]) -> None:
    model, x, y = (grey[0], grey[1][:40], grey[2][:40])
    target = (y + 1 + torch.arange(40) % 9) % 10
    for attack in (
        CW(0.3, targeted=True, steps=60, lr=0.02),
        CW(2.0, norm="l2", targeted=True, steps=60, lr=0.03),
        CW(0.3, form="pgd", targeted=True),
    ):
        result = attack.run(model, x, target)
        assert torch.equal(model(result.x_adv).argmax(1) == target, result.success)
        assert result.success.double().mean() > 0.8


@pytest.mark.parametrize(
    ("text", "attack", "canonical"),
    [
        ("cw:eps=8/255", CW(8 / 255), "cw:eps=8/255,form=tanh,steps=10"),
        ("cw:eps=8/255,form=tanh,steps=10", CW(8 / 255), "cw:eps=8/255,form=tanh,steps=10"),
        ("cw-pgd:eps=8/255", CW(8 / 255, form="pgd"), "cw:eps=8/255,form=pgd,steps=20"),
        ("cw-l2:eps=1.5", CW(1.5, norm="l2"), "cw:eps=1.5,norm=l2,form=tanh,steps=100"),
        ("cw-pgd:eps=1.5,norm=l2", CW(1.5, norm="l2", form="pgd"), "cw:eps=1.5,norm=l2,form=pgd,steps=20"),
        (
            "cw-l2:eps=1,lr=.1,confidence=2,searches=3,targeted=true,steps=7,seed=1",
            CW(1, "l2", "tanh", 7, 0.1, 2.0, 3, targeted=True, seed=1),
            "cw:eps=1,norm=l2,form=tanh,steps=7,lr=0.1,confidence=2,searches=3,targeted=true,seed=1",
        ),
    ],
)
def test_texts_name_the_form(text: str, attack: CW, canonical: str) -> None:
    assert parse(text) == attack
    assert str(attack) == canonical
    assert parse(canonical) == attack


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cw:eps=8", "eps is for images in [0, 1] and so between 0 and 1, got 8.0; for 8 grey levels write 8/255"),
        ("cw-l2:eps=inf", "eps must be a finite number of at least 0; got inf"),
        ("cw:eps=.1,norm=l1", "norm must be one of 'linf', 'l2'; got 'l1'"),
        ("cw:eps=.1,form=adam", "form must be one of 'tanh', 'pgd'; got 'adam'"),
        ("cw:eps=.1,steps=0", "steps is a whole number of at least 1, got 0"),
        ("cw:eps=.1,searches=0", "searches is a whole number of at least 1, got 0"),
        ("cw:eps=.1,lr=0", "lr is more than 0 and at most 1, got 0.0"),
        ("cw:eps=.1,lr=nan", "lr is more than 0 and at most 1, got nan"),
        ("cw:eps=.1,lr=2", "lr is more than 0 and at most 1, got 2.0"),
        ("cw:eps=.1,confidence=-1", "confidence is finite and at least 0, got -1.0"),
        ("cw:eps=.1,confidence=inf", "confidence is finite and at least 0, got inf"),
        ("cw-pgd:eps=.1,form=tanh", "attack 'cw-pgd' sets form=pgd itself; got form=tanh"),
        ("cw-l2:eps=.1,norm=linf", "attack 'cw-l2' sets norm=l2 itself; got norm=linf"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text)
    assert str(caught.value) == message


def test_steps_are_those_of_the_form() -> None:
    made = [CW(0.1), CW(0.1, "l2"), CW(0.1, form="pgd"), CW(0.1, "l2", "pgd")]
    assert [attack.steps for attack in made] == [10, 100, 20, 20]
    assert CW(0.1) == CW(0.1, steps=10) != CW(0.1, steps=11)
    assert len({CW(0.1), CW(0.1, steps=10), CW(0.1, form="pgd")}) == 2
