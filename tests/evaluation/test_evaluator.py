from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import ctrobust as ct
from ctrobust.attacks import FGSM, PGD, Attack, AutoAttack
from ctrobust.attacks.attack_state import AttackState
from ctrobust.attacks.stages import Stage
from ctrobust.data import Dataset, to_float
from ctrobust.errors import CtrobustError, InputError
from ctrobust.evaluation import evaluate, evaluate_each
from ctrobust.outcomes import Evaluation, wilson
from ctrobust.specs.attack_fields import Norm

# A linear model that gives its three pixels as logits. Against it the best attack of radius e lowers the label's pixel
# and raises the others by e, so it fools exactly where the margin is below 2 e.
PIXELS = [
    ([0.50, 0.20, 0.20], 0, 0.30),
    ([0.50, 0.45, 0.20], 0, 0.05),
    ([0.30, 0.60, 0.20], 0, -0.30),
    ([0.20, 0.30, 0.90], 2, 0.60),
    ([0.40, 0.75, 0.50], 1, 0.25),
]
MARGINS = np.array([margin for _, _, margin in PIXELS])


def pixels(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    return torch.tensor([x for x, _, _ in PIXELS], dtype=dtype)[:, None, None], torch.tensor([y for _, y, _ in PIXELS])


def identity(dtype: torch.dtype = torch.float64) -> nn.Module:
    linear = nn.Linear(3, 3, bias=False, dtype=dtype)
    with torch.no_grad():
        linear.weight.copy_(torch.eye(3))
    return nn.Sequential(nn.Flatten(), linear).eval()


def network(dtype: torch.dtype = torch.float64) -> nn.Module:
    """Four classes, each the prediction for some of the images in [0, 1]."""
    first, last = nn.Linear(12, 32), nn.Linear(32, 4, bias=False)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        first.weight.normal_(generator=generator)
        first.bias.copy_(first.weight.sum(1) / -2)  # zero for the grey image
        last.weight.normal_(generator=generator)
    return nn.Sequential(nn.Flatten(), first, nn.Tanh(), last).to(dtype).eval()


def examples(count: int = 50, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    """Images with the labels that the network gives them, every fifth a wrong one."""
    x = torch.rand(count, 3, 2, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)
    with torch.no_grad():
        y = network(dtype)(x).argmax(1)
    return x, torch.where(torch.arange(count) % 5 == 0, (y + 1) % 4, y)


def assert_same(a: Evaluation, b: Evaluation) -> None:
    for (name, first), second in zip(a.arrays().items(), b.arrays().values(), strict=True):
        np.testing.assert_array_equal(first, second, err_msg=name)


@dataclass(frozen=True)
class Shift(Attack):
    """Adds `by` to the pixels of each image, whatever the model, and claims to have succeeded."""

    by: float | tuple[float, ...]
    eps: float = 0.1
    norm: Norm = "linf"
    steps: int = 1
    targeted: bool = False

    def __str__(self) -> str:
        return f"shift by {self.by}"

    def run_stage(self, state: AttackState, stage: Stage) -> None:
        assert stage.attack is self
        index = state.active()
        state.record(index, state.x[index] + torch.tensor(self.by, dtype=state.x.dtype), fooled=True)


class Gives(nn.Module):
    """A module without parameters, from a function."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def test_without_an_attack() -> None:
    out = evaluate(identity(), pixels())
    assert out.clean_prediction.tolist() == [0, 0, 1, 2, 1]
    assert out.accuracy == out.robust_accuracy == 4 / 5
    assert out.accuracy_interval == out.interval == wilson(4, 5)
    assert out.forwards.sum() == out.backwards.sum() == out.unconfirmed.sum() == out.distance.sum() == 0
    np.testing.assert_allclose(out.clean_probabilities, pixels()[0].flatten(1).softmax(1), rtol=1e-6)
    np.testing.assert_array_equal(out.probabilities, out.clean_probabilities)


@pytest.mark.parametrize("eps", [0.0, 0.02, 0.1, 0.14, 0.2])
@pytest.mark.parametrize("kind", [FGSM, PGD])
def test_outcomes_known_by_hand(kind: type[FGSM] | type[PGD], eps: float) -> None:
    out = evaluate(identity(), pixels(), kind(eps=eps))
    robust = (MARGINS > 0) & (2 * eps < MARGINS)
    assert out.robust.tolist() == robust.tolist()
    assert out.accuracy == 4 / 5
    assert out.robust_accuracy == robust.sum() / 5
    assert out.interval == wilson(int(robust.sum()), 5)
    assert out.accuracy_interval == wilson(4, 5)
    assert out.attack_success_rate == 1 - out.robust_accuracy  # over all images, the misclassified ones included
    assert out.distance.max() <= eps + 1e-7
    assert out.distance[2] == out.forwards[2] == out.backwards[2] == 0  # misclassified before the attack
    assert out.unconfirmed.sum() == 0


def test_attacked_probabilities_are_those_of_the_attacked_image() -> None:
    out = evaluate(identity(), pixels(), FGSM(eps=0.1))
    assert out.probabilities is not None
    np.testing.assert_allclose(out.probabilities[3], torch.tensor([0.3, 0.4, 0.8]).softmax(0), rtol=1e-6)
    assert out.prediction.tolist() == [0, 1, 1, 2, 1]
    assert out.attacked_rank.tolist() == [0, 1, 1, 0, 0]


def test_one_clean_pass_for_several_attacks() -> None:
    model, (x, y) = network(), examples()
    seen: list[int] = []
    handle = model.register_forward_hook(lambda _, inputs, __: seen.append(len(inputs[0])))
    outs = list(evaluate_each(model, (x, y), [FGSM(eps=0.1), None, PGD(eps=0.1, steps=5)], chunk=20))
    handle.remove()
    spent = sum(int(out.forwards.sum()) for out in outs)
    attacked = int(outs[0].clean_correct.sum())
    assert sum(seen) == len(x) + spent + 2 * attacked  # once clean, what the attacks say they spent, a check of each
    assert seen[:3] == [20, 20, 10]
    for out, attack in zip(outs, [FGSM(eps=0.1), None, PGD(eps=0.1, steps=5)], strict=True):
        assert_same(out, evaluate(model, (x, y), attack, chunk=20))
    assert outs[0].robust_accuracy < outs[1].robust_accuracy == 0.8


@pytest.mark.parametrize("attack", [None, FGSM(eps=0.05, loss="kl"), PGD(eps=0.05, steps=5, loss="std")])
def test_outcomes_do_not_depend_on_the_chunk(attack: FGSM | PGD | None) -> None:
    outs = [evaluate(network(), examples(), attack, chunk=chunk) for chunk in (1, 7, 64)]
    assert attack is None or 0.1 < outs[0].robust_accuracy < 0.8  # there is something to differ in
    for out in outs[1:]:
        assert_same(out, outs[0])


def test_limit_takes_the_first() -> None:
    attack = PGD(eps=0.05, steps=3)
    all_of_them, some = (evaluate(network(), examples(), attack, limit=limit) for limit in (None, 13))
    assert len(some) == 13
    for name, values in some.arrays().items():
        np.testing.assert_array_equal(values, all_of_them.arrays()[name][:13], err_msg=name)
    assert_same(evaluate(network(), examples(), attack, limit=1000), all_of_them)


def test_outcomes_do_not_depend_on_the_order_of_the_attacks() -> None:
    attacks: list[FGSM | PGD] = [PGD(eps=0.05, steps=3), FGSM(eps=0.1), PGD(eps=0.05, steps=3, loss="sce(gamma=5)")]
    forth = list(evaluate_each(network(), examples(), attacks))
    back = list(evaluate_each(network(), examples(), attacks[::-1]))[::-1]
    assert len({out.robust_accuracy for out in forth}) > 1
    for a, b in zip(forth, back, strict=True):
        assert_same(a, b)


def test_a_data_set_is_its_images_divided_by_255() -> None:
    images = torch.randint(256, (20, 3, 2, 2), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    data = Dataset("dots", "test", images, torch.arange(20) % 4, tuple("abcd"), (0.0,) * 3, (1.0,) * 3, verified=False)
    attack, model = PGD(eps=8 / 255, steps=3), network(torch.float32)
    assert_same(evaluate(model, data, attack), evaluate(model, (to_float(images), data.labels), attack))
    assert len(evaluate(model, data, attack, limit=3)) == 3


class TestMode:
    """Evaluation happens in eval mode, and each module's own mode is put back."""

    @staticmethod
    def mixed() -> nn.Sequential:
        """Random and running parts, some of them in training mode."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = nn.Sequential(
                nn.Flatten(), nn.Linear(12, 8), nn.BatchNorm1d(8), nn.Dropout(0.9), nn.Linear(8, 4)
            ).double()
        model.train()
        model[2].eval()
        return model

    def test_eval_mode_while_it_lasts_and_mixed_modes_after(self) -> None:
        model, data, attack = self.mixed(), examples(), PGD(eps=0.05, steps=3)
        before = [stage.training for stage in model.modules()]
        assert len(set(before)) == 2
        state = {name: value.clone() for name, value in model.state_dict().items()}
        generator = torch.get_rng_state()
        with pytest.warns(UserWarning, match="training mode"):
            out = evaluate(model, data, attack)
        assert [stage.training for stage in model.modules()] == before
        assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
        assert all(parameter.grad is None for parameter in model.parameters())
        assert torch.equal(torch.get_rng_state(), generator)
        assert_same(out, evaluate(model.eval(), data, attack))
        assert not model.training

    @pytest.mark.parametrize("after", [1, 2])
    def test_restored_when_something_raises(self, after: int) -> None:
        model = self.mixed()
        before = [stage.training for stage in model.modules()]

        def progress(done: float, total: float, _: str) -> None:
            assert not any(stage.training for stage in model.modules())
            if done == (50 if after == 1 else total):  # at the end of the clean pass, and of the attack
                raise KeyboardInterrupt

        with pytest.warns(UserWarning, match="training mode"), pytest.raises(KeyboardInterrupt):
            evaluate(model, examples(), FGSM(eps=0.1), progress=progress)
        assert [stage.training for stage in model.modules()] == before

    def test_restored_after_each_attack(self) -> None:
        model = self.mixed()
        before = [stage.training for stage in model.modules()]
        outs = evaluate_each(model, examples(), [None, FGSM(eps=0.1)])
        next(outs)
        assert [stage.training for stage in model.modules()] == before


@pytest.mark.parametrize("attacks", [[None], [FGSM(eps=0.1)], [FGSM(eps=0.1), None, PGD(eps=0.1, restarts=3)]])
def test_watch_is_told_how_much_is_done_and_of_what(attacks: list[FGSM | PGD | None]) -> None:
    told: list[tuple[float, float, str]] = []
    outs = list(evaluate_each(network(), examples(50), attacks, chunk=20, progress=lambda *said: told.append(said)))
    assert len(outs) == len(attacks)
    done = [said[0] for said in told]
    assert done[:3] == [20, 40, 50]
    assert done == sorted(done)
    assert all(0 <= a <= b for a, b, _ in told)
    assert told[-1][0] == told[-1][1]
    named = {what for _, _, what in told} - {"", "clean images"}
    assert {str(attack) for attack in attacks if attack} <= named


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_a_model_is_evaluated_in_its_own_precision(dtype: torch.dtype) -> None:
    seen: set[torch.dtype] = set()
    model = identity(dtype)
    model.register_forward_hook(lambda _, inputs, __: seen.add(inputs[0].dtype))
    out = evaluate(model, pixels(torch.float32), FGSM(eps=0.1))
    assert seen == {dtype}
    assert out.robust.tolist() == [True, False, False, True, True]
    assert out.probabilities is not None
    assert out.probabilities.dtype == out.clean_probabilities.dtype == np.float32
    assert abs(out.distance.max() - 0.1) < 1e-7  # the ball's is never below float32


def test_a_model_of_less_precision_must_give_logits_too() -> None:
    model = identity(torch.bfloat16)
    hook = model.register_forward_hook(lambda _, __, logits: {"a": logits, "b": logits})
    with pytest.raises(InputError, match=r"only tensor of a dict; got dict with \{'a': Tensor, 'b': Tensor\}"):
        evaluate(model, pixels())
    hook.remove()
    expected = evaluate(model, pixels())
    model.register_forward_hook(lambda _, __, logits: (logits, -logits))
    np.testing.assert_array_equal(evaluate(model, pixels()).probabilities, expected.probabilities)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_module_without_parameters(dtype: torch.dtype) -> None:
    out = evaluate(nn.Flatten().eval(), pixels(dtype), FGSM(eps=0.1))
    assert out.robust.tolist() == [True, False, False, True, True]


def test_labels_of_another_integer_type() -> None:
    x, y = examples()
    assert_same(evaluate(network(), (x, y.int()), FGSM(eps=0.1)), evaluate(network(), (x, y), FGSM(eps=0.1)))


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("loss", ["ce", "kl"])
def test_without_gradients_around_it(context: Callable[[], torch.no_grad], loss: str) -> None:
    model, data, attack = network(), examples(), PGD(eps=0.05, steps=3, loss=loss)
    expected = evaluate(model, data, attack)
    with context():
        assert_same(evaluate(model, data, attack), expected)


class TestRefused:
    """What does not fit is refused, with what was found."""

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda x, y: (x * 255, y), r"images are in \[0, 1\], got values from .* to 25\d"),
            (lambda x, y: (x - 0.5, y), r"images are in \[0, 1\], got values from -0\.\d+ to 0\.\d+"),
            (lambda x, y: (x.where(x != x[3, 0, 0, 0], torch.nan), y), r"images are in \[0, 1\], got values from nan"),
            (lambda x, y: (x[:0], y[:0]), r"N >= 1, got \(0, 3, 2, 2\)"),
            (lambda x, y: (x, y.where(y != 3, 4)), r"labels are in 0\.\.3, got 0 to 4"),
            (lambda x, y: (x, y - 1), r"labels are in 0\.\.3, got -1 to 2"),
            (lambda x, y: (x, y.double()), r"labels are integers of shape \(50,\), got torch.float64"),
            (lambda x, y: (x, y > 1), r"labels are integers of shape \(50,\), got torch.bool"),
            (lambda x, y: (x, y[:-1]), r"labels are integers of shape \(50,\), got torch.int64 of shape \(49,\)"),
            (lambda x, y: (x, y[:, None]), r"labels are integers of shape \(50,\), got torch.int64 of shape \(50, 1\)"),
        ],
    )
    @pytest.mark.parametrize("attack", [None, FGSM(eps=0.1)])
    def test_examples(
        self, change: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]], message: str, attack: FGSM | None
    ) -> None:
        with pytest.raises(InputError, match=message):
            evaluate(network(), change(*examples()), attack)

    def test_a_bad_image_behind_the_first_chunk(self) -> None:
        x, y = examples()
        x[40] += 1
        with pytest.raises(InputError, match=r"images are in \[0, 1\]"):
            evaluate(network(), (x, y), chunk=10)

    @pytest.mark.parametrize(
        ("model", "message"),
        [
            (nn.Sequential(network(), nn.Softmax(1)).eval(), "gives probabilities: .* Remove its softmax"),
            (Gives(lambda x: network()(x) * torch.nan), "not all finite: NaN or infinity found"),
            (Gives(lambda x: network()(x) / 0), "not all finite"),
            (Gives(lambda x: network()(x)[:, 0]), r"gives logits \(N, C\).* got \(50,\)"),
            (Gives(lambda x: x), r"gives logits \(N, C\).* got \(50, 3, 2, 2\)"),
            (Gives(lambda x: network()(x)[:-1]), r"gives logits \(N, C\).* got \(49, 4\)"),
        ],
    )
    def test_models(self, model: nn.Module, message: str) -> None:
        with pytest.raises(InputError, match=message):
            evaluate(model, examples())

    def test_log_probabilities_are_logits(self) -> None:
        model = nn.Sequential(network(), nn.LogSoftmax(1)).eval()
        assert evaluate(model, examples()).accuracy == 0.8

    def test_a_model_that_breaks_only_under_attack(self) -> None:
        x, y = examples()
        model = Gives(lambda at: network()(at) if torch.isin(at, x).all() else network()(at) * torch.nan)
        assert evaluate(model, (x, y)).accuracy == 0.8
        with pytest.raises(InputError, match="not all finite"):
            evaluate(model, (x, y), FGSM(eps=0.1))

    @pytest.mark.parametrize("value", [0, -1])
    def test_counts(self, value: int) -> None:
        with pytest.raises(InputError, match=f"chunk is from 1 to 65,536, got {value}"):
            evaluate(network(), examples(), chunk=value)
        with pytest.raises(InputError, match=f"limit is at least 1, got {value}"):
            evaluate(network(), examples(), limit=value)


class TestAttacksAreChecked:
    """An attack is not believed."""

    @pytest.mark.parametrize(
        ("by", "message"),
        [
            (0.2, r"left its ball or the box: distance 0\.2 of 0\.1, values 0\.4 to 1"),
            (0.1001, r"left its ball or the box: distance 0\.1001 of 0\.1"),
            (-0.2, r"distance 0\.2 of 0\.1, values 0 to 0\.6"),
            (torch.nan, r"distance nan of 0\.1, values nan to nan"),
            (torch.inf, r"distance inf"),
        ],
    )
    def test_outside_the_ball(self, by: float, message: str) -> None:
        x = torch.tensor([[0.2, 0.4, 0.8]], dtype=torch.float64)
        with pytest.raises(CtrobustError, match=message):
            evaluate(identity(), (x, torch.tensor([2])), Shift(by))

    @pytest.mark.parametrize(("by", "message"), [(0.1, r"values 0\.1 to 1\.05"), (-0.1, r"values -0\.1 to 0\.85")])
    def test_outside_the_box(self, by: float, message: str) -> None:
        x = torch.tensor([[0.0, 0.4, 0.95]], dtype=torch.float64)
        with pytest.raises(CtrobustError, match=message):
            evaluate(identity(), (x, torch.tensor([2])), Shift(by))

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_on_the_sphere_is_inside(self, dtype: torch.dtype) -> None:
        x = torch.rand(100, 3, dtype=dtype, generator=torch.Generator().manual_seed(0)) * 0.9
        out = evaluate(identity(dtype), (x, x.argmax(1)), Shift(0.1))
        assert abs(out.distance - 0.1).max() < 1e-6

    def test_a_success_that_is_none_is_not_counted(self) -> None:
        out = evaluate(identity(), pixels(), Shift(0.05))  # all logits move together: no prediction changes
        assert out.robust_accuracy == out.accuracy == 4 / 5
        assert out.unconfirmed.tolist() == [True, True, False, True, True]  # the third was misclassified before
        assert out.summary()["unconfirmed"] == 4

    def test_an_image_made_right_is_not_robust(self) -> None:
        out = evaluate(identity(), pixels(), Shift((0.2, -0.2, 0.0), eps=0.2))
        assert out.prediction.tolist() == [0, 0, 1, 2, 0]  # the third is not attacked
        assert out.robust.tolist() == [True, True, False, True, False]  # the third is misclassified without the attack
        assert out.unconfirmed.tolist() == [True, True, False, True, False]

    def test_the_bad_image_may_be_anywhere(self) -> None:
        x = torch.full((30, 3), 0.5, dtype=torch.float64)
        x[25, 1] = 0.95
        with pytest.raises(CtrobustError, match=r"values 0\.6 to 1\.05"):
            evaluate(identity(), (x, x.argmax(1)), Shift(0.1), chunk=7)


def test_the_public_name() -> None:
    assert ct.evaluate is evaluate


def test_an_attack_may_be_given_as_its_text() -> None:
    found = evaluate(network(), examples(), "pgd:eps=0.05,steps=3")
    assert_same(found, evaluate(network(), examples(), PGD(eps=0.05, steps=3)))
    assert found.robust_accuracy < found.accuracy
    with pytest.raises(InputError, match="unknown attack 'pdg'; did you mean 'pgd'"):
        evaluate(network(), examples(), "pdg:eps=0.05")


@pytest.mark.parametrize("attack", [PGD, [[PGD(eps=0.1)]], 8 / 255])
def test_what_is_no_attack_is_refused(attack: Any) -> None:
    with pytest.raises(InputError, match=r"an attack is one of ctrobust.attacks, as PGD.*, or its text; got "):
        evaluate(network(), examples(), attack)


def test_a_model_must_be_a_module() -> None:
    wrong: Any = lambda x: x.flatten(1)  # noqa: E731
    with pytest.raises(InputError, match=r"a model is a torch.nn.Module, got function"):
        evaluate(wrong, examples())


def test_every_common_form_of_data_gives_the_same_outcomes() -> None:
    x, y = examples()
    levels = (x * 255).to(torch.uint8)
    expected = evaluate(network(), (levels.float() / 255, y), FGSM(eps=0.1))
    forms: list[Any] = [
        (levels, y),
        (levels.numpy(), y.numpy()),
        (levels.permute(0, 2, 3, 1).numpy(), y.tolist()),
        TensorDataset(levels, y),
        DataLoader(TensorDataset(levels, y), batch_size=7),
        Dataset("mine", "test", levels, y, tuple("abcd"), (0.0,) * 3, (1.0,) * 3, verified=False),
    ]
    for form in forms:
        found = evaluate(network(), form, FGSM(eps=0.1))
        np.testing.assert_array_equal(found.prediction, expected.prediction)
        np.testing.assert_allclose(found.clean_probabilities, expected.clean_probabilities, atol=1e-6)


def test_an_attack_that_is_undefined_on_so_few_classes_is_refused_by_its_name_before_any_work() -> None:
    net, stages_done = nn.Sequential(nn.Flatten(), nn.Linear(4, 3)).eval(), list[str]()
    data = (torch.rand(6, 1, 2, 2), torch.arange(6) % 3)
    attacks = [ct.attacks.parse("fgsm:eps=0.1"), ct.attacks.parse("apgd-t:eps=0.1,steps=2")]
    found = evaluate_each(net, data, attacks, progress=lambda _done, _total, what: stages_done.append(what))
    with pytest.raises(InputError, match=r"^apgd:eps=0.1,.*targets=9 needs 4 classes, and the model has 3$"):
        next(found)
    assert set(stages_done) == {"clean images"}


def test_what_an_ensemble_cannot_try_is_warned_of() -> None:
    x, y = examples()
    model = Gives(lambda at: network()(at)[:, :3]).eval()
    attack = AutoAttack(eps=1e-4, queries=2)
    with pytest.warns(UserWarning, match="incomplete on so few classes: apgd:.*targets=9.* needs 4 classes") as caught:
        evaluate(model, (x[y < 3], y[y < 3]), attack)
    assert len(caught) == 1
    evaluate(network(), (x[:5], y[:5]), attack)


def test_targeted_attacks_are_refused() -> None:
    with pytest.raises(InputError, match="targeted: evaluation measures misclassification"):
        evaluate(network(), examples(), PGD(eps=0.1, targeted=True))


class Counting(nn.Module):
    """A model that counts the images it classifies."""

    def __init__(self) -> None:
        super().__init__()
        self.model, self.count = identity(), 0

    def forward(self, x: Tensor) -> Tensor:
        self.count += len(x)
        logits: Tensor = self.model(x)
        return logits


def test_a_list_of_attacks_gives_a_list_of_evaluations_with_one_clean_pass() -> None:
    x, y = pixels()
    attacks = [None, FGSM(eps=0.1), "pgd:eps=0.1,steps=3"]
    together, apart = Counting().eval(), Counting().eval()
    found = evaluate(together, (x, y), attacks)
    expected = [evaluate(apart, (x, y), attack) for attack in attacks]
    assert len(found) == 3
    for one, other in zip(found, expected, strict=True):
        for name, array in other.arrays().items():
            np.testing.assert_array_equal(one.arrays()[name], array)
    clean_pass, randomness = len(x), 2 * len(x)  # each made once instead of three times
    assert together.count == apart.count - 2 * (clean_pass + randomness)
    assert evaluate(together, (x, y), tuple(attacks[:1]))[0].accuracy == expected[0].accuracy
    assert evaluate(together, (x, y), []) == []


def test_each_attack_of_a_list_is_checked_before_the_first_runs() -> None:
    model = Counting().eval()
    with pytest.raises(InputError, match="unknown attack 'pdg'"):
        evaluate(model, pixels(), [FGSM(eps=0.1), "pdg:eps=0.1"])
    with pytest.raises(InputError, match=r"an attack is one of ctrobust.attacks, .*; got 3"):
        evaluate(model, pixels(), [FGSM(eps=0.1), 3])  # type: ignore[list-item]
    assert model.count == 0


@pytest.mark.filterwarnings("ignore:.*incomplete on so few classes")
def test_an_ensemble_says_which_of_its_attacks_broke_how_many() -> None:
    x, y = pixels()
    model = Counting().eval()
    found = evaluate(model, (x, y), "autoattack:eps=0.1,queries=20")
    assert found.broken_by is not None
    assert next(iter(found.broken_by)) == "apgd:eps=0.1"
    assert sum(found.broken_by.values()) == int((found.clean_correct & ~found.robust).sum()) > 0
    assert evaluate(model, (x, y), "apgd:eps=0.1,steps=5,restarts=2").broken_by is None
