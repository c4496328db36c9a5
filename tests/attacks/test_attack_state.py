"""Active examples, recorded images and counted passes; the original model checks successes of a fused copy."""

import pytest
import torch
from torch import Tensor, nn

from ctrobust.attacks import FGSM
from ctrobust.attacks.attack_losses import AttackLoss, log_softplus, resolve_loss
from ctrobust.attacks.attack_state import AttackState, ResumeState
from ctrobust.attacks.fused import FusedModel
from ctrobust.errors import InputError


class Linear(nn.Module):
    """Logits x + shift of images that are logits themselves; records the sizes of the batches."""

    def __init__(self, shift: float | Tensor = 0.0) -> None:
        super().__init__()
        self.shift, self.sizes = shift, list[int]()

    def forward(self, x: Tensor) -> Tensor:
        self.sizes.append(len(x))
        return x + self.shift


X = torch.tensor([[0.9, 0.5, 0.1], [0.2, 0.8, 0.7], [0.3, 0.4, 0.6], [0.6, 0.5, 0.4]], dtype=torch.float64)
Y = torch.tensor([0, 1, 0, 0])
ALL = torch.arange(4)


def pair(shift: float | Tensor) -> tuple[Linear, Linear, FusedModel]:
    original, fused = Linear(), Linear(shift)
    return original, fused, FusedModel(original, fused)


def test_at_first_all_examples_are_active() -> None:
    state = AttackState(Linear(), X, Y)
    assert state.active().tolist() == [0, 1, 2, 3]
    assert torch.equal(state.found, X)
    assert state.keys.tolist() == [0, 1, 2, 3]
    assert not state.forwards.any()
    result = state.result()
    assert not result.success.any()
    assert not result.backwards.any()
    assert result.left_out == ()


def test_inputs_are_copied() -> None:
    x, y, clean = X.clone(), Y.int(), X.clone()
    state = AttackState(Linear(), x, y, clean_logits=clean)
    state.record(ALL, torch.zeros_like(X), fooled=True)
    for tensor in (x, clean):
        tensor.zero_()
    y.fill_(2)
    assert torch.equal(state.x, X)
    assert torch.equal(state.clean, X)
    assert torch.equal(state.y, Y)
    assert state.y.dtype == torch.int64
    assert state.x.data_ptr() != state.found.data_ptr()


@pytest.mark.parametrize("targeted", [False, True])
def test_misclassified_images_are_fooled_without_an_attack(targeted: bool) -> None:
    model = Linear()
    state = AttackState(model, X, Y, targeted=targeted)
    assert not state.clean_known
    state.drop_misclassified()
    assert state.clean_known
    assert state.fooled.tolist() == ([True, True, False, True] if targeted else [False, False, True, False])
    assert torch.equal(state.found, X)
    state.drop_misclassified()
    assert state.classes == 3
    assert model.sizes == [4]
    assert state.forwards.tolist() == [1, 1, 1, 1]


def test_given_clean_logits_need_no_forward_pass() -> None:
    model = Linear()
    state = AttackState(model, X, Y, clean_logits=X.flip(1))
    state.drop_misclassified()
    assert state.fooled.tolist() == [True, False, False, True]
    assert model.sizes == []
    assert not state.forwards.any()


def test_clean_logits_are_those_of_the_original_model() -> None:
    original, fused, model_with_copy = pair(torch.tensor([0.0, 0.0, 9.0], dtype=torch.float64))
    state = AttackState(model_with_copy, X, Y)
    assert torch.equal(state.clean, X)
    assert (original.sizes, fused.sizes) == ([4], [])


def test_success_of_logits() -> None:
    logits = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    index = torch.tensor([1, 2])
    assert AttackState(Linear(), X, Y).wrong(logits, index).tolist() == [True, True]
    assert AttackState(Linear(), X, Y, targeted=True).wrong(logits.flip(0), index).tolist() == [True, True]
    assert AttackState(Linear(), X, Y).wrong(logits.flip(0), index).tolist() == [False, False]


def test_targets_are_wrong_classes_by_their_rank_in_the_clean_output() -> None:
    state = AttackState(Linear(), X, Y)
    assert state.target(ALL, 1).tolist() == [1, 2, 2, 1]
    assert state.target(ALL, 2).tolist() == [2, 0, 1, 2]
    assert state.target(torch.tensor([2, 0]), 1).tolist() == [2, 1]
    tied = AttackState(Linear(), torch.full_like(X, 0.5), Y)
    assert tied.target(ALL, 1).tolist() == [1, 0, 1, 1]


def test_passes_are_counted_for_each_example() -> None:
    model = Linear()
    state = AttackState(model, X, Y)
    some = torch.tensor([1, 3])
    logits = state.forward(X[some] / 2, some)
    assert torch.equal(logits, X[some] / 2)
    assert not logits.requires_grad
    state.gradient(X[some], some, resolve_loss("margin"))
    state.gradient(X[1:2], ALL[1:2], resolve_loss("margin"), eot=3)
    assert state.forwards.tolist() == [0, 5, 0, 2]
    assert state.backwards.tolist() == [0, 4, 0, 1]
    assert model.sizes == [2, 2, 1, 1, 1]


@pytest.mark.parametrize("targeted", [False, True])
def test_gradient_by_hand(targeted: bool) -> None:
    state = AttackState(Linear(), X, Y, targeted=targeted)
    at = X.clone().requires_grad_()
    gradient, values, logits = state.gradient(at, ALL, resolve_loss("margin"))
    expected = torch.tensor([[-1, 1, 0], [0, -1, 1], [-1, 0, 1], [-1, 1, 0]], dtype=torch.float64)
    margins = torch.tensor([-0.4, -0.1, 0.3, -0.1], dtype=torch.float64)
    sign = -1 if targeted else 1
    assert torch.equal(gradient, sign * expected)
    torch.testing.assert_close(values, sign * margins, rtol=0, atol=1e-15)
    assert torch.equal(logits, X)
    assert not any(tensor.requires_grad for tensor in (gradient, values, logits))
    assert at.grad is None


def test_gradient_toward_a_target_class() -> None:
    state = AttackState(Linear(), X, Y)
    gradient, values, _ = state.gradient(X, ALL, resolve_loss("margin"), target=state.target(ALL, 2))
    expected = torch.tensor([[-1, 0, 1], [1, -1, 0], [-1, 1, 0], [-1, 0, 1]], dtype=torch.float64)
    assert torch.equal(gradient, expected)
    torch.testing.assert_close(values, torch.tensor([-0.8, -0.6, 0.1, -0.2], dtype=torch.float64), rtol=0, atol=1e-15)


def test_losses_get_the_clean_logits_of_the_same_examples() -> None:
    state = AttackState(Linear(), X, Y)
    seen: list[Tensor] = []

    def away(logits: Tensor, _: Tensor, clean: Tensor) -> Tensor:
        seen.append(clean)
        return (logits - clean).square().sum(1)

    some = torch.tensor([3, 1])
    gradient, values, _ = state.gradient(X[some] + 0.1, some, AttackLoss(away, needs_clean=True, flat_at_clean=True))
    assert torch.equal(seen[0], X[some])
    torch.testing.assert_close(gradient, torch.full_like(gradient, 0.2))
    torch.testing.assert_close(values, torch.full_like(values, 0.03))
    assert state.forwards.tolist() == [1, 2, 1, 2]


class Drawing(nn.Module):
    """Logits and gradients that are random in each pass."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rand(3, dtype=x.dtype) * 2


def test_eot_averages_over_passes() -> None:
    torch.manual_seed(3)
    state = AttackState(Drawing(), X, Y)
    gradient, values, logits = state.gradient(X, ALL, resolve_loss("margin"), eot=5)
    torch.manual_seed(3)
    singles = [AttackState(Drawing(), X, Y).gradient(X, ALL, resolve_loss("margin")) for _ in range(5)]
    for found, several in zip((gradient, values, logits), zip(*singles, strict=True), strict=True):
        torch.testing.assert_close(found, torch.stack(several).mean(0), rtol=0, atol=1e-15)
    assert not torch.equal(singles[0][0], singles[1][0])


@pytest.mark.parametrize(
    ("broken", "passes"), [((), [4]), ((1,), [4]), ((1, 3), [4, 2]), ((0, 1, 3), [4, 1]), ((0, 1, 2, 3), [4])]
)
def test_gradient_of_the_active_examples(broken: tuple[int, ...], passes: list[int]) -> None:
    """Few active examples are passed through a fused copy again; through a model without a copy they never are."""
    y = X.argmax(1)
    y[list(broken)] = (y[list(broken)] + 1) % 3
    active, target = [i not in broken for i in range(4)], (y + 2) % 3
    original, fused, model_with_copy = pair(0.0)
    plain = Linear()
    for model, seen in ((model_with_copy, passes), (plain, [4])):
        state = AttackState(model, X, y)
        found = state.gradient_of_active(X, ALL, resolve_loss("margin"), target=target)
        gradient, values, _ = AttackState(Linear(), X, y).gradient(X, ALL, resolve_loss("margin"), target=target)
        assert found[0].tolist() == list(broken)
        assert found[1].tolist() == [i for i in range(4) if active[i]]
        assert torch.equal(found[2], gradient[active])
        assert torch.equal(found[3], values[active])
        assert state.forwards.tolist() == [1] * 4
        assert state.backwards.tolist() == [int(one) for one in active]
        assert (fused if model is model_with_copy else plain).sizes == seen
    assert not original.sizes


def test_eot_averages_decide_which_examples_are_active() -> None:
    y = torch.tensor([0, 1, 0, 1])
    state = AttackState(Linear(), X, y)
    broken, active, gradient, values = state.gradient_of_active(X, ALL, resolve_loss("ce"), eot=3)
    alone, original, _ = AttackState(Linear(), X, y).gradient(X[:2], ALL[:2], resolve_loss("ce"))
    assert (broken.tolist(), active.tolist()) == ([2, 3], [0, 1])
    torch.testing.assert_close(gradient, alone)
    torch.testing.assert_close(values, log_softplus(original))
    assert state.forwards.tolist() == [3] * 4
    assert state.backwards.tolist() == [3, 3, 0, 0]


def test_parameters_get_no_gradient() -> None:
    model = nn.Linear(3, 3, dtype=torch.float64)
    state = AttackState(model, X, Y)
    state.gradient(X, ALL, resolve_loss("ce"))
    assert model.weight.grad is None
    assert model.weight.requires_grad


def test_boundaries_of_every_wrong_class() -> None:
    state = AttackState(Linear(), X, Y)
    found = list(state.boundaries(X, ALL))
    assert len(found) == 2
    for shift, (difference, gradient) in enumerate(found, 1):
        other = (Y + shift) % 3
        torch.testing.assert_close(difference, X[ALL, other] - X[ALL, Y], rtol=0, atol=0)
        expected = nn.functional.one_hot(other, 3) - nn.functional.one_hot(Y, 3)
        assert torch.equal(gradient, expected.double())
    assert state.forwards.tolist() == [1] * 4
    assert state.backwards.tolist() == [2] * 4


def test_record() -> None:
    state = AttackState(Linear(), X, Y)
    some = torch.tensor([2, 0])
    state.record(some, torch.zeros(2, 3, dtype=torch.float64), fooled=torch.tensor([True, False]))
    assert state.fooled.tolist() == [False, False, True, False]
    assert state.active().tolist() == [0, 1, 3]
    assert not state.found[some].any()
    assert torch.equal(state.found[[1, 3]], X[[1, 3]])
    state.record(ALL[:1], torch.ones(1, 3, dtype=torch.float64), fooled=True)
    assert state.active().tolist() == [1, 3]
    assert state.found[0].tolist() == [1, 1, 1]


def test_the_original_model_confirms_each_success_once() -> None:
    original, fused, model_with_copy = pair(torch.tensor([-0.2, 0.0, 0.0], dtype=torch.float64))
    state = AttackState(model_with_copy, X, Y)
    state.drop_misclassified()
    assert state.active().tolist() == [0, 1, 3]
    some = torch.tensor([1, 3])
    found = torch.tensor([[0.9, 0.0, 0.0], [0.6, 0.5, 0.4]], dtype=torch.float64)
    fooled = state.wrong(state.forward(found, some), some)
    assert fooled.tolist() == [True, True]
    state.record(some, found, fooled)
    state.confirm()
    # The copy is wrong about the last image: the original model classifies it correctly.
    assert state.fooled.tolist() == [False, True, True, False]
    assert original.sizes == [4, 2]
    assert fused.sizes == [2]
    assert state.forwards.tolist() == [1, 3, 1, 3]
    state.confirm()
    assert original.sizes == [4, 2]
    state.record(ALL[:1], X[1:2], fooled=True)
    state.confirm()
    assert original.sizes == [4, 2, 1]
    assert state.result().success.tolist() == [True, True, True, False]


def test_nothing_is_confirmed_without_a_copy_or_verification() -> None:
    original, fused, model_with_copy = pair(0.0)
    for model, verify_last in ((original, True), (model_with_copy, False)):
        state = AttackState(model, X, Y, verify_last=verify_last)
        state.record(ALL, X, fooled=True)
        state.confirm()
        assert state.fooled.all()
        assert not state.forwards.any()
    assert original.sizes == fused.sizes == []


def test_successes_that_the_caller_verifies_are_counted_but_not_classified() -> None:
    original, fused, model = pair(0.0)
    state = AttackState(model, X, Y, clean_logits=X, verify_successes=False)
    state.drop_misclassified()
    state.record(ALL[:2], X[:2], fooled=True)
    for _ in range(2):
        state.confirm()
        assert state.forwards.tolist() == [1, 1, 0, 0]
    assert state.fooled.tolist() == [True, True, True, False]
    assert original.sizes == fused.sizes == []
    alone = AttackState(original, X, Y, verify_successes=False)
    alone.record(ALL, X, fooled=True)
    alone.confirm()
    assert not alone.forwards.any()


def test_the_default_resume_state_stores_nothing() -> None:
    resume_state = AttackState(Linear(), X, Y).resume_state
    resume_state.write(lambda: {"step": ALL})
    resume_state.report_progress(0.5)
    assert resume_state.read() is None
    assert type(resume_state) is ResumeState


def test_invalid_inputs_raise() -> None:
    with pytest.raises(InputError, match="images are in"):
        FGSM(0.1).run(Linear(), X + 1, Y)
    with pytest.raises(InputError, match="logits"):
        AttackState(Linear(), X, Y, clean_logits=X[:2])
    state = AttackState(Linear(float("nan")), X, Y)
    for call in (
        lambda: state.clean,
        lambda: state.forward(X, ALL),
        lambda: state.gradient(X, ALL, resolve_loss("ce")),
        lambda: list(state.boundaries(X, ALL)),
    ):
        with pytest.raises(InputError, match="not all finite"):
            call()


class Rooted(nn.Module):
    """Finite logits whose gradient at black pixels is not a number."""

    def forward(self, x: Tensor) -> Tensor:
        return x + 0 * x.sqrt()


def test_a_nan_gradient_raises() -> None:
    state = AttackState(Rooted(), 0 * X, Y)
    with pytest.raises(InputError, match="gradient with respect to the images is NaN"):
        state.gradient(0 * X, ALL, resolve_loss("ce"))
    with pytest.raises(InputError, match="gradient with respect to the images is NaN"):
        list(state.boundaries(0 * X, ALL))
