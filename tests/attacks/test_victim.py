"""Who stands, what was found, and every pass counted; the user's own model has the last word."""

import pytest
import torch
from torch import Tensor, nn

from ctrobust.attacks.objectives import Objective, log_softplus, objective
from ctrobust.attacks.prepared import Prepared
from ctrobust.attacks.victim import Notebook, Victim
from ctrobust.errors import InputError


class Linear(nn.Module):
    """Logits x + shift of images that are logits themselves; notes how many it was given."""

    def __init__(self, shift: float | Tensor = 0.0) -> None:
        super().__init__()
        self.shift, self.sizes = shift, list[int]()

    def forward(self, x: Tensor) -> Tensor:
        self.sizes.append(len(x))
        return x + self.shift


X = torch.tensor([[0.9, 0.5, 0.1], [0.2, 0.8, 0.7], [0.3, 0.4, 0.6], [0.6, 0.5, 0.4]], dtype=torch.float64)
Y = torch.tensor([0, 1, 0, 0])
ALL = torch.arange(4)


def pair(shift: float | Tensor) -> tuple[Linear, Linear, Prepared]:
    own, quick = Linear(), Linear(shift)
    return own, quick, Prepared(own, quick)


def test_at_first_all_stand() -> None:
    victim = Victim(Linear(), X, Y)
    assert victim.standing().tolist() == [0, 1, 2, 3]
    assert torch.equal(victim.found, X)
    assert victim.keys.tolist() == [0, 1, 2, 3]
    assert not victim.forwards.any()
    result = victim.result()
    assert not result.success.any()
    assert not result.backwards.any()
    assert result.left_out == ()


def test_nothing_of_the_callers_is_kept() -> None:
    x, y, clean = X.clone(), Y.int(), X.clone()
    victim = Victim(Linear(), x, y, clean_logits=clean)
    victim.note(ALL, torch.zeros_like(X), fooled=True)
    for tensor in (x, clean):
        tensor.zero_()
    y.fill_(2)
    assert torch.equal(victim.x, X)
    assert torch.equal(victim.clean, X)
    assert torch.equal(victim.y, Y)
    assert victim.y.dtype == torch.int64
    assert victim.x.data_ptr() != victim.found.data_ptr()


@pytest.mark.parametrize("targeted", [False, True])
def test_misclassified_images_fall_by_themselves(targeted: bool) -> None:
    model = Linear()
    victim = Victim(model, X, Y, targeted=targeted)
    assert not victim.clean_known
    victim.drop_misclassified()
    assert victim.clean_known
    assert victim.fooled.tolist() == ([True, True, False, True] if targeted else [False, False, True, False])
    assert torch.equal(victim.found, X)
    victim.drop_misclassified()
    assert victim.classes == 3
    assert model.sizes == [4]
    assert victim.forwards.tolist() == [1, 1, 1, 1]


def test_given_clean_logits_cost_nothing() -> None:
    model = Linear()
    victim = Victim(model, X, Y, clean_logits=X.flip(1))
    victim.drop_misclassified()
    assert victim.fooled.tolist() == [True, False, False, True]
    assert model.sizes == []
    assert not victim.forwards.any()


def test_clean_logits_are_of_the_own_model() -> None:
    own, quick, prepared = pair(torch.tensor([0.0, 0.0, 9.0], dtype=torch.float64))
    victim = Victim(prepared, X, Y)
    assert torch.equal(victim.clean, X)
    assert (own.sizes, quick.sizes) == ([4], [])


def test_wrong() -> None:
    logits = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    index = torch.tensor([1, 2])
    assert Victim(Linear(), X, Y).wrong(logits, index).tolist() == [True, True]
    assert Victim(Linear(), X, Y, targeted=True).wrong(logits.flip(0), index).tolist() == [True, True]
    assert Victim(Linear(), X, Y).wrong(logits.flip(0), index).tolist() == [False, False]


def test_targets_are_wrong_classes_by_their_rank_in_the_clean_output() -> None:
    victim = Victim(Linear(), X, Y)
    assert victim.target(ALL, 1).tolist() == [1, 2, 2, 1]
    assert victim.target(ALL, 2).tolist() == [2, 0, 1, 2]
    assert victim.target(torch.tensor([2, 0]), 1).tolist() == [2, 1]
    tied = Victim(Linear(), torch.full_like(X, 0.5), Y)
    assert tied.target(ALL, 1).tolist() == [1, 0, 1, 1]


def test_passes_are_counted_for_whom_they_are_made() -> None:
    model = Linear()
    victim = Victim(model, X, Y)
    some = torch.tensor([1, 3])
    logits = victim.forward(X[some] / 2, some)
    assert torch.equal(logits, X[some] / 2)
    assert not logits.requires_grad
    victim.gradient(X[some], some, objective("margin"))
    victim.gradient(X[1:2], ALL[1:2], objective("margin"), eot=3)
    assert victim.forwards.tolist() == [0, 5, 0, 2]
    assert victim.backwards.tolist() == [0, 4, 0, 1]
    assert model.sizes == [2, 2, 1, 1, 1]


@pytest.mark.parametrize("targeted", [False, True])
def test_gradient_by_hand(targeted: bool) -> None:
    victim = Victim(Linear(), X, Y, targeted=targeted)
    at = X.clone().requires_grad_()
    gradient, values, logits = victim.gradient(at, ALL, objective("margin"))
    expected = torch.tensor([[-1, 1, 0], [0, -1, 1], [-1, 0, 1], [-1, 1, 0]], dtype=torch.float64)
    margins = torch.tensor([-0.4, -0.1, 0.3, -0.1], dtype=torch.float64)
    sign = -1 if targeted else 1
    assert torch.equal(gradient, sign * expected)
    torch.testing.assert_close(values, sign * margins, rtol=0, atol=1e-15)
    assert torch.equal(logits, X)
    assert not any(tensor.requires_grad for tensor in (gradient, values, logits))
    assert at.grad is None


def test_gradient_towards_a_class() -> None:
    victim = Victim(Linear(), X, Y)
    gradient, values, _ = victim.gradient(X, ALL, objective("margin"), target=victim.target(ALL, 2))
    expected = torch.tensor([[-1, 0, 1], [1, -1, 0], [-1, 1, 0], [-1, 0, 1]], dtype=torch.float64)
    assert torch.equal(gradient, expected)
    torch.testing.assert_close(values, torch.tensor([-0.8, -0.6, 0.1, -0.2], dtype=torch.float64), rtol=0, atol=1e-15)


def test_gradient_sees_the_clean_logits_of_the_same_examples() -> None:
    victim = Victim(Linear(), X, Y)
    seen: list[Tensor] = []

    def away(logits: Tensor, _: Tensor, clean: Tensor) -> Tensor:
        seen.append(clean)
        return (logits - clean).square().sum(1)

    some = torch.tensor([3, 1])
    gradient, values, _ = victim.gradient(X[some] + 0.1, some, Objective(away, needs_clean=True, flat_at_clean=True))
    assert torch.equal(seen[0], X[some])
    torch.testing.assert_close(gradient, torch.full_like(gradient, 0.2))
    torch.testing.assert_close(values, torch.full_like(values, 0.03))
    assert victim.forwards.tolist() == [1, 2, 1, 2]


class Drawing(nn.Module):
    """Logits and gradients that are drawn at each pass."""

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rand(3, dtype=x.dtype) * 2


def test_averages_over_passes() -> None:
    torch.manual_seed(3)
    victim = Victim(Drawing(), X, Y)
    gradient, values, logits = victim.gradient(X, ALL, objective("margin"), eot=5)
    torch.manual_seed(3)
    singles = [Victim(Drawing(), X, Y).gradient(X, ALL, objective("margin")) for _ in range(5)]
    for found, several in zip((gradient, values, logits), zip(*singles, strict=True), strict=True):
        torch.testing.assert_close(found, torch.stack(several).mean(0), rtol=0, atol=1e-15)
    assert not torch.equal(singles[0][0], singles[1][0])


@pytest.mark.parametrize(
    ("fallen", "passes"), [((), [4]), ((1,), [4]), ((1, 3), [4, 2]), ((0, 1, 3), [4, 1]), ((0, 1, 2, 3), [4])]
)
def test_who_stands_and_their_gradient(fallen: tuple[int, ...], passes: list[int]) -> None:
    """When few are left, the copy is asked again about the few; a model without a copy never is."""
    y = X.argmax(1)
    y[list(fallen)] = (y[list(fallen)] + 1) % 3
    stands, target = [i not in fallen for i in range(4)], (y + 2) % 3
    own, quick, prepared = pair(0.0)
    plain = Linear()
    for model, seen in ((prepared, passes), (plain, [4])):
        victim = Victim(model, X, y)
        found = victim.gradient_of_standing(X, ALL, objective("margin"), target=target)
        gradient, values, _ = Victim(Linear(), X, y).gradient(X, ALL, objective("margin"), target=target)
        assert found[0].tolist() == stands
        assert torch.equal(found[1], gradient[found[0]])
        assert torch.equal(found[2], values[found[0]])
        assert victim.forwards.tolist() == [1] * 4
        assert victim.backwards.tolist() == [int(one) for one in stands]
        assert (quick if model is prepared else plain).sizes == seen
    assert not own.sizes


def test_averages_decide_who_stands() -> None:
    y = torch.tensor([0, 1, 0, 1])
    victim = Victim(Linear(), X, y)
    stands, gradient, values = victim.gradient_of_standing(X, ALL, objective("ce"), eot=3)
    alone, own, _ = Victim(Linear(), X, y).gradient(X[:2], ALL[:2], objective("ce"))
    assert stands.tolist() == [True, True, False, False]
    torch.testing.assert_close(gradient, alone)
    torch.testing.assert_close(values, log_softplus(own))
    assert victim.forwards.tolist() == [3] * 4
    assert victim.backwards.tolist() == [3, 3, 0, 0]


def test_parameters_get_no_gradient() -> None:
    model = nn.Linear(3, 3, dtype=torch.float64)
    victim = Victim(model, X, Y)
    victim.gradient(X, ALL, objective("ce"))
    assert model.weight.grad is None
    assert model.weight.requires_grad


def test_every_boundary_in_turn() -> None:
    victim = Victim(Linear(), X, Y)
    found = list(victim.boundaries(X, ALL))
    assert len(found) == 2
    for shift, (difference, gradient) in enumerate(found, 1):
        other = (Y + shift) % 3
        torch.testing.assert_close(difference, X[ALL, other] - X[ALL, Y], rtol=0, atol=0)
        expected = nn.functional.one_hot(other, 3) - nn.functional.one_hot(Y, 3)
        assert torch.equal(gradient, expected.double())
    assert victim.forwards.tolist() == [1] * 4
    assert victim.backwards.tolist() == [2] * 4


def test_notes() -> None:
    victim = Victim(Linear(), X, Y)
    some = torch.tensor([2, 0])
    victim.note(some, torch.zeros(2, 3, dtype=torch.float64), fooled=torch.tensor([True, False]))
    assert victim.fooled.tolist() == [False, False, True, False]
    assert victim.standing().tolist() == [0, 1, 3]
    assert not victim.found[some].any()
    assert torch.equal(victim.found[[1, 3]], X[[1, 3]])
    victim.note(ALL[:1], torch.ones(1, 3, dtype=torch.float64), fooled=True)
    assert victim.standing().tolist() == [1, 3]
    assert victim.found[0].tolist() == [1, 1, 1]


def test_the_own_model_confirms_each_success_once() -> None:
    own, quick, prepared = pair(torch.tensor([-0.2, 0.0, 0.0], dtype=torch.float64))
    victim = Victim(prepared, X, Y)
    victim.drop_misclassified()
    assert victim.standing().tolist() == [0, 1, 3]
    some = torch.tensor([1, 3])
    found = torch.tensor([[0.9, 0.0, 0.0], [0.6, 0.5, 0.4]], dtype=torch.float64)
    fooled = victim.wrong(victim.forward(found, some), some)
    assert fooled.tolist() == [True, True]
    victim.note(some, found, fooled)
    victim.confirm()
    # The copy is mistaken about the last: its image is right by the model itself.
    assert victim.fooled.tolist() == [False, True, True, False]
    assert own.sizes == [4, 2]
    assert quick.sizes == [2]
    assert victim.forwards.tolist() == [1, 3, 1, 3]
    victim.confirm()
    assert own.sizes == [4, 2]
    victim.note(ALL[:1], X[1:2], fooled=True)
    victim.confirm()
    assert own.sizes == [4, 2, 1]
    assert victim.result().success.tolist() == [True, True, True, False]


def test_without_a_copy_or_a_judge_nothing_is_confirmed() -> None:
    own, quick, prepared = pair(0.0)
    for model, judge in ((own, True), (prepared, False)):
        victim = Victim(model, X, Y, judge=judge)
        victim.note(ALL, X, fooled=True)
        victim.confirm()
        assert victim.fooled.all()
        assert not victim.forwards.any()
    assert own.sizes == quick.sizes == []


def test_the_notebook_forgets() -> None:
    notebook = Victim(Linear(), X, Y).notebook
    notebook.write(lambda: {"step": ALL})
    notebook.tell(0.5)
    assert notebook.read() is None
    assert type(notebook) is Notebook


def test_refused() -> None:
    with pytest.raises(InputError, match="images are in"):
        Victim(Linear(), X + 1, Y)
    with pytest.raises(InputError, match="logits"):
        Victim(Linear(), X, Y, clean_logits=X[:2])
    victim = Victim(Linear(float("nan")), X, Y)
    for call in (
        lambda: victim.clean,
        lambda: victim.forward(X, ALL),
        lambda: victim.gradient(X, ALL, objective("ce")),
        lambda: list(victim.boundaries(X, ALL)),
    ):
        with pytest.raises(InputError, match="not all finite"):
            call()


class Rooted(nn.Module):
    """Finite logits whose gradient at black pixels is not a number."""

    def forward(self, x: Tensor) -> Tensor:
        return x + 0 * x.sqrt()


def test_a_gradient_that_is_nan_is_refused() -> None:
    victim = Victim(Rooted(), 0 * X, Y)
    with pytest.raises(InputError, match="gradient with respect to the images is NaN"):
        victim.gradient(0 * X, ALL, objective("ce"))
    with pytest.raises(InputError, match="gradient with respect to the images is NaN"):
        list(victim.boundaries(0 * X, ALL))
