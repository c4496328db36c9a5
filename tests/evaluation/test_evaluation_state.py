"""Stages, pooling of the remaining examples, and resuming after a kill."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ctrobust.attacks import PGD, Attack, AutoAttack, Square
from ctrobust.errors import RunError
from ctrobust.evaluation import StateArrays, evaluate, evaluate_each, stage_batches
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
    """Stands for a signal."""


@dataclass
class MemoryStore:
    """Keeps the progress in memory and raises after a number of writes."""

    dies_after: int = 10**9
    batches: list[StateArrays] = field(default_factory=list)
    resume: dict[str, StateArrays] = field(default_factory=dict)
    writes: int = 0

    def load(self) -> tuple[list[StateArrays], dict[str, StateArrays]]:
        return self.batches, dict(self.resume)

    def append(self, batch: str, outcomes: StateArrays) -> None:
        self.batches.append({name: value.copy() for name, value in outcomes.items()})
        self.resume.pop(batch, None)
        self._count()

    def save_resume_state(self, batch: str, arrays: StateArrays) -> None:
        self.resume[batch] = {name: value.copy() for name, value in arrays.items()}
        self._count()

    def _count(self) -> None:
        self.writes += 1
        if self.writes == self.dies_after:
            raise Killed


def run(attack: Attack, store: MemoryStore, chunk: int = 10) -> Evaluation:
    (found,) = evaluate_each(network(), examples(), [attack], chunk=chunk, stores=[store])
    return found


def assert_same(a: Evaluation, b: Evaluation) -> None:
    for (name, first), second in zip(a.arrays().items(), b.arrays().values(), strict=True):
        np.testing.assert_array_equal(first, second, err_msg=name)


@pytest.mark.parametrize("attack", [ENSEMBLE, PGD(eps=0.02, restarts=3)], ids=str)
def test_killed_after_any_batch_it_resumes_to_the_same_outcomes(attack: Attack) -> None:
    whole = MemoryStore()
    expected = run(attack, whole)
    assert 0 < expected.robust_accuracy < 1
    for after in range(1, whole.writes, max(1, whole.writes // 2)):
        store = MemoryStore(dies_after=after)
        with pytest.raises(Killed):
            run(attack, store)
        assert_same(run(attack, store), expected)
        assert store.writes == whole.writes  # finished batches did not run again


def test_killed_within_square_it_resumes_from_its_resume_state(monkeypatch: pytest.MonkeyPatch) -> None:
    attack = Square(eps=0.02, queries=500)
    expected = run(attack, MemoryStore(), chunk=24)
    monkeypatch.setattr(stage_batches, "RESUME_STATE_SECONDS", 0.0)
    store = MemoryStore(dies_after=4)
    with pytest.raises(Killed):
        run(attack, store, chunk=24)
    assert store.batches == []
    assert list(store.resume) == ["0-0"]
    assert "found" in store.resume["0-0"]
    assert_same(run(attack, store, chunk=24), expected)
    whole = MemoryStore()
    run(attack, whole, chunk=24)
    assert store.writes == whole.writes  # the queries before the kill were not repeated
    assert store.resume == {}


def test_the_stored_progress_grows_linearly_with_the_examples() -> None:
    attack, sizes = PGD(eps=0.02, steps=2), []
    for count in (24, 96):
        store = MemoryStore()
        x, y = examples(count=count)
        list(evaluate_each(network(), (x, y), [attack], chunk=4, stores=[store]))
        assert len(store.batches) == count // 4
        sizes.append(sum(array.nbytes for batch in store.batches for array in batch.values()))
    assert sizes[1] == 4 * sizes[0]


def test_remaining_examples_are_pooled_into_full_batches() -> None:
    sizes: list[int] = []

    class Seen(nn.Module):
        """A module that cannot be copied or traced, so that its forward passes are recorded."""

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
    remaining = int(first.robust.sum())
    assert 8 < remaining < 24
    full, rest = divmod(remaining, 8)
    assert sizes == [8] * 3 + [8] * full + [rest] * (rest > 0)
    assert found.robust_accuracy <= first.robust_accuracy


def test_outcomes_do_not_depend_on_the_chunk() -> None:
    outs = [run(ENSEMBLE, MemoryStore(), chunk=chunk) for chunk in (5, 24)]
    for out in outs[1:]:
        assert_same(out, outs[0])


def test_the_outcomes_name_their_attack() -> None:
    attacked, clean = evaluate(network(), examples(), ["s-pgd:eps=8/255,steps=2", None])
    assert attacked.attack == "pgd:eps=8/255,steps=2,loss=std"
    assert clean.attack == "none"


def test_the_ensemble_is_as_strong_as_in_one_call() -> None:
    x, y = examples()
    result = ENSEMBLE.run(network(), x, y)
    np.testing.assert_array_equal(~result.success.numpy(), run(ENSEMBLE, MemoryStore()).robust)


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("broken_by", lambda array: array[:-1], r"has broken_by of torch.int64 \(9,\) for 10 examples"),
        ("distance", lambda array: array.astype("f8"), r"has distance of torch.float64 \(10,\)"),
        ("index", lambda array: array + 100, "is of other examples than these 24"),
        ("index", lambda array: array - 100, "is of other examples than these 24"),
    ],
)
def test_stored_progress_of_other_examples_is_rejected(name: str, damage: Any, message: str) -> None:
    store = MemoryStore(dies_after=1)
    with pytest.raises(Killed):
        run(ENSEMBLE, store)
    store.batches[0][name] = damage(store.batches[0][name])
    with pytest.raises(RunError, match=message):
        run(ENSEMBLE, store)


def test_stored_progress_with_other_fields_is_rejected() -> None:
    store = MemoryStore(batches=[{"labels": np.zeros(3)}])
    with pytest.raises(RunError, match="has the fields labels"):
        run(ENSEMBLE, store)


def test_the_original_model_checks_each_attacked_image_once() -> None:
    model, (x, y) = network(), examples()
    passes: list[int] = []

    class Counted(nn.Module):
        """Counts the images that the original model classifies; a copy of it is the plain network."""

        def __init__(self) -> None:
            super().__init__()
            self.network = model

        def forward(self, x: Tensor) -> Tensor:
            passes.append(len(x))
            logits: Tensor = self.network(x)
            return logits

        def __deepcopy__(self, _: object) -> nn.Module:
            return network()

    out = evaluate(Counted().eval(), (x, y), PGD(eps=0.05, steps=10), chunk=24)
    assert out.robust_accuracy < out.accuracy  # there are successes to check
    clean_pass, check, comparison_with_the_fused_copy, randomness = 24, 24, 2 * 4, 2 * 8
    assert sum(passes) == clean_pass + check + comparison_with_the_fused_copy + randomness
