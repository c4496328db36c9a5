"""Parts, pooling, and going on after a kill."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ctrobust.attacks import PGD, Attack, AutoAttack, Square
from ctrobust.errors import InputError
from ctrobust.evaluation import evaluate, evaluate_each, evaluation_state
from ctrobust.outcomes import Evaluation


def network(classes: int = 10) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        layers = nn.Sequential(
            nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 36, classes)
        )
        for stage in layers:
            if isinstance(stage, nn.BatchNorm2d):
                stage.running_var.uniform_(0.5, 2.0)  # type: ignore[union-attr]
        return layers.double().eval()


def examples(classes: int = 10, count: int = 24) -> tuple[Tensor, Tensor]:
    x = torch.rand(count, 1, 8, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    with torch.no_grad():
        return x, network(classes)(x).argmax(1)


ENSEMBLE = AutoAttack(eps=0.03, queries=20)


class Killed(Exception):  # noqa: N818
    """In place of a signal."""


@dataclass
class Kept:
    """Holds what was saved last, and dies after so many saves."""

    dies_after: int = 10**9
    arrays: dict[str, NDArray[Any]] | None = None
    saves: int = 0
    seen: list[dict[str, NDArray[Any]]] = field(default_factory=list)

    def load(self) -> dict[str, NDArray[Any]] | None:
        return self.arrays

    def save(self, arrays: dict[str, NDArray[Any]]) -> None:
        self.arrays = {name: value.copy() for name, value in arrays.items()}
        self.seen.append(self.arrays)
        self.saves += 1
        if self.saves == self.dies_after:
            raise Killed


def run(attack: Attack, store: Kept, chunk: int = 10) -> Evaluation:
    (found,) = evaluate_each(network(), examples(), [attack], chunk=chunk, stores=[store])
    return found


def assert_same(a: Evaluation, b: Evaluation) -> None:
    for (name, first), second in zip(a.arrays().items(), b.arrays().values(), strict=True):
        np.testing.assert_array_equal(first, second, err_msg=name)


@pytest.mark.parametrize("attack", [ENSEMBLE, PGD(eps=0.02, restarts=3)], ids=str)
def test_killed_after_any_batch_it_goes_on_to_the_same_outcomes(attack: Attack) -> None:
    whole = Kept()
    expected = run(attack, whole)
    assert 0 < expected.robust_accuracy < 1
    for after in range(1, whole.saves, max(1, whole.saves // 4)):
        store = Kept(dies_after=after)
        with pytest.raises(Killed):
            run(attack, store)
        assert_same(run(attack, store), expected)
        assert store.saves == whole.saves  # what was done was not done again


def test_killed_within_square_it_goes_on_from_its_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    attack = Square(eps=0.02, queries=500)
    expected = run(attack, Kept(), chunk=24)
    monkeypatch.setattr(evaluation_state, "RESUME_STATE_SECONDS", 0.0)
    store = Kept(dies_after=4)
    with pytest.raises(Killed):
        run(attack, store, chunk=24)
    assert store.arrays is not None
    assert any(name.startswith("note.0.0.") for name in store.arrays)
    assert (store.arrays["tried"] == 0).all()
    before = store.saves
    assert_same(run(attack, store, chunk=24), expected)
    whole = Kept()
    run(attack, whole, chunk=24)
    assert store.saves - before == whole.saves - before  # the rest only
    assert not any(name.startswith("note.") for name in store.arrays)


def test_survivors_are_pooled_into_full_batches() -> None:
    sizes: list[int] = []

    class Seen(nn.Module):
        """Not traceable, so that passes are seen."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = network()

        def forward(self, x: Tensor) -> Tensor:
            if x.requires_grad:
                sizes.append(int(x.shape[0]))
            logits: Tensor = self.inner(x)
            return logits

        def __deepcopy__(self, _: object) -> nn.Module:
            raise TypeError

    attack = PGD(eps=0.02, steps=1, restarts=2, success="last")
    (found,) = evaluate_each(Seen().eval(), examples(), [attack], chunk=8)
    first = evaluate(network(), examples(), PGD(eps=0.02, steps=1, success="last"))
    survivors = int(first.robust.sum())
    assert 8 < survivors < 24
    full, rest = divmod(survivors, 8)
    assert sizes == [8] * 3 + [8] * full + [rest] * (rest > 0)
    assert found.robust_accuracy <= first.robust_accuracy


def test_outcomes_do_not_depend_on_the_chunk() -> None:
    outs = [run(ENSEMBLE, Kept(), chunk=chunk) for chunk in (5, 24)]
    for out in outs[1:]:
        assert_same(out, outs[0])


def test_the_ensemble_is_as_strong_as_in_one_call() -> None:
    x, y = examples()
    result = ENSEMBLE.run(network(), x, y)
    np.testing.assert_array_equal(~result.success.numpy(), run(ENSEMBLE, Kept()).robust)


def test_a_state_of_other_examples_is_refused() -> None:
    store = Kept(dies_after=1)
    with pytest.raises(Killed):
        run(ENSEMBLE, store)
    assert store.arrays is not None
    store.arrays["fell"] = store.arrays["fell"][:-1]
    with pytest.raises(InputError, match=r"the evaluation under way has fell of torch.int64 \(23,\)"):
        run(ENSEMBLE, store)
