"""CW against closed forms of linear models, and against one-example transcriptions with torch.optim.Adam."""

import dataclasses

import pytest
import torch
from torch import Tensor, nn

from ctrobust.attacks import CW, PGD, parse
from ctrobust.errors import InputError
from ctrobust.specs.attack_fields import Form, Norm

NORMS = pytest.mark.parametrize("norm", ["linf", "l2"])
EACH_FORM = pytest.mark.parametrize(("norm", "form"), [("linf", "box"), ("linf", "tanh"), ("l2", "tanh")])


def length(offset: Tensor, norm: Norm) -> Tensor:
    flat = offset.flatten(1)
    return flat.abs().amax(1) if norm == "linf" else flat.square().sum(1).sqrt()


def margin(logits: Tensor, y: Tensor, targeted: bool) -> Tensor:
    """The margin (n,), positive where the attack succeeds."""
    labelled = logits.gather(1, y[:, None])[:, 0]
    other = logits.scatter(1, y[:, None], -torch.inf).amax(1)
    return labelled - other if targeted else other - labelled


class AdamInTanhSpace:
    """One example's iterates by torch.optim.Adam, differentiated through tanh and the model."""

    def __init__(self, model: nn.Module, x: Tensor, y: Tensor, lr: float, targeted: bool) -> None:
        self.model, self.x, self.y, self.targeted = model, x[None], y[None], targeted
        self.w = torch.atanh((2 * self.x - 1) * 0.999999).requires_grad_()
        self.optimizer = torch.optim.Adam([self.w], lr=lr)

    def image(self) -> Tensor:
        return (self.w.tanh() + 1) / 2

    def shortfall(self) -> Tensor:
        return (-margin(self.model(self.image()), self.y, self.targeted)).clamp(min=0).sum()

    def step(self, loss: Tensor) -> tuple[Tensor, bool]:
        self.optimizer.zero_grad()
        torch.autograd.backward(loss, inputs=[self.w])
        self.optimizer.step()
        image = self.image().detach()
        right = bool(self.model(image).argmax(1) == self.y)
        return image, right == self.targeted


def transcribed_linf(model: nn.Module, x: Tensor, y: Tensor, attack: CW) -> tuple[Tensor | None, int]:
    """The first misclassified image inside the ball, None if there is none, and the number of steps."""
    tau, c, made = 1.0, 1e-5, 0
    while True:
        adam, reached, penalized = AdamInTanhSpace(model, x, y, attack.lr, attack.targeted), [], False
        for _ in range(attack.steps):
            excess = (adam.image() - adam.x).abs() - tau
            penalized = penalized or bool((excess > 0).any())
            image, fooled = adam.step(adam.shortfall() + excess.clamp(min=0).sum() / c)
            made += 1
            distance = length(image - adam.x, "linf").item()
            if fooled and distance <= attack.eps:
                return image[0], made
            reached += [distance] if fooled else []
        if reached:
            tau = 0.9 * min(tau, *reached)
            if tau <= 1 / 256:
                return None, made
        else:
            c *= 2
            if c >= 20 or not penalized:
                return None, made


def transcribed_l2(model: nn.Module, x: Tensor, y: Tensor, attack: CW) -> tuple[Tensor | None, int]:
    low, high, c, made = 0.0, 1e10, 1e-3, 0
    for _ in range(attack.searches):
        adam, any_fooled, before = AdamInTanhSpace(model, x, y, attack.lr, attack.targeted), False, float("inf")
        for step in range(1, attack.steps + 1):
            loss = (adam.image() - adam.x).square().sum() + c * adam.shortfall()
            image, fooled = adam.step(loss)
            made += 1
            any_fooled = any_fooled or fooled
            distance = length(image - adam.x, "l2").item()
            if fooled and distance <= attack.eps:
                return image[0], made
            if step % (attack.steps // 10) == 0:
                now = distance**2 + c * adam.shortfall().item()
                if now > 0.9999 * before:
                    break
                before = now
        low, high = (low, c) if any_fooled else (c, high)
        c = (low + high) / 2 if high < 1e10 else 10 * c
    return None, made


@pytest.fixture
def low_contrast(network: nn.Sequential, digits: tuple[Tensor, Tensor]) -> tuple[nn.Module, Tensor, Tensor]:
    """The digits with pixels in [.2, .8], which have a gradient in tanh space, and the network for them."""

    class LowContrast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = network

        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = self.inner((x - 0.2) / 0.6)
            return logits

    return LowContrast().eval(), 0.2 + 0.6 * digits[0], digits[1]


TRANSCRIBED = [
    CW(0.02, form="tanh"),
    CW(0.035, form="tanh"),
    CW(0.06, form="tanh", steps=7, lr=0.02),
    CW(0.08, form="tanh", steps=12, lr=0.03, targeted=True),
    CW(0.3, norm="l2", steps=20, searches=4, lr=0.02),
    CW(0.2, norm="l2", steps=10, lr=0.03),
    CW(0.6, norm="l2", steps=20, searches=5, lr=0.03, targeted=True),
]


@pytest.mark.parametrize("attack", TRANSCRIBED, ids=str)
def test_agrees_with_the_transcription(low_contrast: tuple[nn.Module, Tensor, Tensor], attack: CW) -> None:
    model, x, y = low_contrast
    some = slice(0, 3) if attack.targeted else slice(0, 7)
    x, y = x[some], y[some]
    label = (y + 1) % 10 if attack.targeted else y
    result = attack.run(model, x, label)
    clean = (model(x).argmax(1) == label) == attack.targeted
    assert not clean.all()
    transcribed = transcribed_linf if attack.norm == "linf" else transcribed_l2
    found = []
    for i in range(len(x)):
        if clean[i]:
            assert result.success[i]
            assert torch.equal(result.x_adv[i], x[i])
            continue
        image, made = transcribed(model, x[i], label[i], attack)
        found.append(image is not None)
        if image is not None:
            assert result.success[i]
            torch.testing.assert_close(result.x_adv[i], image, rtol=0, atol=1e-7)
        # One pass of the clean image, one at the start, one after each step; the projected image of a robust example is
        # classified; and if a fused copy was attacked, the original model verifies a success.
        verified = int(attack.steps >= 10 and bool(result.success[i]))
        assert result.forwards[i] == 2 + made + (image is None) + verified
        assert result.backwards[i] == 1 + made
    if attack in TRANSCRIBED[:2]:
        assert any(found)
        assert not all(found)


def linear(C: int = 2) -> tuple[nn.Sequential, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """A linear model; images of class 0; labels; the linf and l2 distances to class 1; and w_1 - w_0."""
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


@pytest.mark.parametrize(
    ("norm", "form"), [("linf", "box"), ("linf", "tanh"), ("linf", "pgd"), ("l2", "tanh"), ("l2", "pgd")]
)
@pytest.mark.parametrize(("C", "targeted"), [(2, False), (3, True), (3, False)])
def test_success_if_eps_exceeds_the_distance_to_the_boundary(norm: Norm, form: Form, C: int, targeted: bool) -> None:
    model, x, y, linf, l2, _ = linear(C)
    distance = linf if norm == "linf" else l2
    # Steps much smaller than the distances, which are about .04 and .13.
    steps, lr = (30, 0.003) if norm == "linf" else (100, 0.004)
    for factor, fooled in ((0.99, False), (1.06, True)):
        attack = CW(distance[0].item() * factor, norm, form, steps, lr, targeted=targeted)
        result = attack.run(model, x[:1], y[:1] + int(targeted))
        assert result.success.tolist() == [fooled]
        assert length(result.x_adv - x[:1], norm).item() <= attack.eps * (1 + 1e-12)


def test_l2_perturbation_is_along_the_gradient_of_a_linear_model() -> None:
    model, x, y, _, distance, slope = linear()
    # No image inside so small a ball is misclassified; the closest misclassified one is along the gradient.
    attack = CW(0.01, norm="l2", steps=300, lr=0.002)
    offset = attack.run(model, x, y).x_adv - x
    torch.testing.assert_close(length(offset, "l2"), torch.full_like(distance, 0.01), rtol=1e-9, atol=0)
    cosine = (offset * slope).flatten(1).sum(1) / slope.norm() / 0.01
    assert cosine.min() > 0.99


@EACH_FORM
def test_robust_examples_get_an_image_in_the_ball(
    low_contrast: tuple[nn.Module, Tensor, Tensor], norm: Norm, form: Form
) -> None:
    model, x, y = low_contrast
    eps = 0.02 if norm == "linf" else 0.15
    attack, x, y = CW(eps, norm, form, steps=10, searches=4, lr=0.03), x[:25], y[:25]
    result = attack.run(model, x, y)
    assert 0.05 < result.success.double().mean() < 0.9
    moved = length(result.x_adv - x, norm)
    assert moved.max() <= eps * (1 + 1e-12)
    assert result.x_adv.min() >= 0
    assert result.x_adv.max() <= 1
    assert (moved[~result.success] > 0.5 * eps).all()
    assert torch.equal(model(result.x_adv).argmax(1) != y, result.success)
    assert torch.equal(attack(model, x, y), result.x_adv)


@EACH_FORM
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_black_and_white_images(norm: Norm, form: Form, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(6, 1, 3, 4, generator=generator).round().to(dtype)
    layer = nn.Linear(12, 3, bias=False, dtype=dtype)
    layer.weight.data = torch.randn(3, 12, generator=generator).to(dtype)
    model = nn.Sequential(nn.Flatten(), layer).eval()
    y = model(x).argmax(1)
    # Black and white pixels have a small gradient in tanh space: they need many large steps.
    for eps, steps, lr in ((0.0, 3, 0.01), (0.3, 3, 0.01), (1.0, 30 if norm == "linf" else 100, 0.3)):
        result = CW(eps, norm, form, steps, lr).run(model, x, y)
        assert result.x_adv.isfinite().all()
        assert result.x_adv.min() >= 0
        assert result.x_adv.max() <= 1
        assert length(result.x_adv - x, norm).max() <= eps + 4 * torch.finfo(dtype).eps
        assert torch.equal(model(result.x_adv).argmax(1) != y, result.success)
        if eps < 1.0:
            assert not result.success.any()
        elif form == "tanh":  # the line search of form "box" stops where every pixel has almost no gradient
            assert result.success.double().mean() > 0.5


@EACH_FORM
def test_terminates_for_constant_logits(norm: Norm, form: Form) -> None:
    class Constant(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.tensor([2.0, 0.0, 0.0]) + 0 * x.flatten(1)[:, :3]

    x = torch.full((2, 1, 2, 2), 0.3)
    result = CW(0.2, norm, form, steps=20).run(Constant(), x, torch.zeros(2, dtype=torch.int64))
    assert not result.success.any()
    assert (result.x_adv - x).abs().max() < 0.01


def test_one_round_if_the_penalty_is_never_active() -> None:
    # Ten steps do not reach the boundary. Passes: the clean image, the start, ten steps, the projected last image.
    model, x, y, *_ = linear()
    model.get_parameter("1.bias").data[0] += 9.0
    result = CW(0.2, form="tanh").run(model.train(), x, y)
    assert not result.success.any()
    assert result.forwards.tolist() == [13] * 12
    assert result.backwards.tolist() == [11] * 12
    assert (length(result.x_adv - x, "linf") - 0.05).abs().max() < 2e-3
    called = CW(0.2, form="tanh")(model, x, y)
    assert torch.equal(called, result.x_adv)


def test_forward_passes_are_counted(low_contrast: tuple[nn.Module, Tensor, Tensor]) -> None:
    model, x, y = low_contrast
    x, y = x[:25], y[:25]
    with torch.no_grad():
        clean = model(x)
    calls: list[int] = []
    handle = model.register_forward_hook(lambda _, inputs, __: calls.append(len(inputs[0])))
    try:
        for attack in (
            CW(0.03, steps=5),
            CW(0.03, form="tanh", steps=5),
            CW(0.2, norm="l2", steps=8, searches=3),
            CW(0.03, form="pgd", steps=5),
        ):
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


@EACH_FORM
def test_outcomes_do_not_depend_on_the_batch(
    low_contrast: tuple[nn.Module, Tensor, Tensor], norm: Norm, form: Form
) -> None:
    model, x, y = low_contrast
    x, y, keys = x[:30], y[:30], torch.arange(30)
    attack = CW(0.03, form=form, steps=8) if norm == "linf" else CW(0.25, norm="l2", steps=10, searches=4, lr=0.03)
    whole = attack.run(model, x, y, keys)
    assert 0.1 < whole.success.double().mean() < 0.9
    some = torch.randperm(30, generator=torch.Generator().manual_seed(1))
    for indices in (some[:7], some[7:8], keys[whole.success], keys[~whole.success]):
        stage = attack.run(model, x[indices], y[indices], keys[indices])
        for name in ("success", "forwards", "backwards"):
            assert torch.equal(getattr(stage, name), getattr(whole, name)[indices]), name
        torch.testing.assert_close(stage.x_adv, whole.x_adv[indices], rtol=0, atol=1e-9)


@EACH_FORM
def test_confidence_continues_beyond_the_boundary(norm: Norm, form: Form) -> None:
    model, x, y, *_ = linear()
    eps = 0.2 if norm == "linf" else 0.6
    attack = CW(eps, norm, form, steps=60)
    for confidence in (0.0, 0.3):
        result = dataclasses.replace(attack, confidence=confidence).run(model, x, y)
        margins = margin(model(result.x_adv), y, targeted=False)
        assert result.success.all()
        assert margins.min() >= confidence
        assert margins.max() < confidence + (0.5 if form == "box" else 0.3)  # a doubled step goes further
    # A misclassified image below the confidence is a success too.
    unconfident = dataclasses.replace(attack, confidence=1e3).run(model, x, y)
    assert unconfident.success.all()
    assert length(unconfident.x_adv - x, norm).max() <= eps


@NORMS
@pytest.mark.parametrize("targeted", [False, True])
def test_form_pgd_is_pgd_on_the_margin(
    low_contrast: tuple[nn.Module, Tensor, Tensor], norm: Norm, targeted: bool
) -> None:
    model, x, y = low_contrast
    eps = 0.05 if norm == "linf" else 0.4
    label = (y + 1) % 10 if targeted else y
    ours = CW(eps, norm=norm, form="pgd", targeted=targeted, seed=3).run(model, x, label)
    pgd = PGD(eps, steps=20, loss="margin", norm=norm, targeted=targeted, seed=3).run(model, x, label)
    for name in ("x_adv", "success", "forwards", "backwards"):
        assert torch.equal(getattr(ours, name), getattr(pgd, name)), name


def test_targeted_reaches_the_given_class(low_contrast: tuple[nn.Module, Tensor, Tensor]) -> None:
    model, x, y = (low_contrast[0], low_contrast[1][:40], low_contrast[2][:40])
    target = (y + 1 + torch.arange(40) % 9) % 10
    for attack in (
        CW(0.3, targeted=True, steps=60, lr=0.02),
        CW(0.3, form="tanh", targeted=True, steps=60, lr=0.02),
        CW(2.0, norm="l2", targeted=True, steps=60, lr=0.03),
        CW(0.3, form="pgd", targeted=True),
    ):
        result = attack.run(model, x, target)
        assert torch.equal(model(result.x_adv).argmax(1) == target, result.success)
        assert result.success.double().mean() > 0.8


@pytest.mark.parametrize(
    ("text", "attack", "canonical"),
    [
        ("cw:eps=8/255", CW(8 / 255), "cw:eps=8/255,form=box,steps=10"),
        ("cw:eps=8/255,form=box,steps=10", CW(8 / 255), "cw:eps=8/255,form=box,steps=10"),
        ("cw-tanh:eps=8/255", CW(8 / 255, form="tanh"), "cw:eps=8/255,form=tanh,steps=10"),
        ("cw:eps=8/255,form=tanh,steps=10", CW(8 / 255, form="tanh"), "cw:eps=8/255,form=tanh,steps=10"),
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
        ("cw:eps=.1,form=adam", "form of norm linf must be one of 'box', 'tanh', 'pgd'; got 'adam'"),
        ("cw-l2:eps=.1,form=box", "form of norm l2 must be one of 'tanh', 'pgd'; got 'box'"),
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
def test_invalid_fields_are_refused(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text)
    assert str(caught.value) == message


def test_default_steps_depend_on_norm_and_form() -> None:
    made = [CW(0.1), CW(0.1, "l2"), CW(0.1, form="pgd"), CW(0.1, "l2", "pgd"), CW(0.1, form="tanh")]
    assert [attack.steps for attack in made] == [10, 100, 20, 20, 10]
    assert CW(0.1) == CW(0.1, steps=10) != CW(0.1, steps=11)
    assert CW(0.1) == CW(0.1, form="box") != CW(0.1, form="tanh")
    assert len({CW(0.1), CW(0.1, steps=10), CW(0.1, form="pgd")}) == 2
