"""Training that diverges stops with the batch, keeps the last good state, and continues with another rate."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from ctrobust import data
from ctrobust.errors import RunError
from ctrobust.models.tensor_files import read_tensors
from ctrobust.specs import TrainSpec, spec_hash, train_spec
from ctrobust.store import RunDirectory
from ctrobust.training import CheckpointPolicy, DivergedError, TrainingState, train, with_changed_rate
from ctrobust.training.divergence import EXPLODED, find_divergence, is_rate_change, largest_loss
from tests.training.runs import metrics

# 5 batches per epoch
FIELDS: dict[str, Any] = {"limit": 80, "batch_size": 16, "epochs": 4, "lr": 0.05, "model": {"width": 8}}
SPEC = train_spec({**FIELDS, "method": "mdl"})
EVERY_BATCH = CheckpointPolicy(seconds=0.0)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "run")


def largest_weight(path: Path) -> float:
    return max(float(tensor.abs().max()) for tensor in read_tensors(path)[0].values() if tensor.is_floating_point())


@pytest.mark.parametrize("lr", [1e6, 1e20, 1e38])
@pytest.mark.parametrize(
    "fields", [{"method": "mdl"}, {"recipe": {"name": "fast"}}, {"model": {"name": "resnet18", "width": 4}}], ids=str
)
def test_an_exploded_state_is_never_saved(run: RunDirectory, lr: float, fields: dict[str, Any]) -> None:
    spec = train_spec({**FIELDS, "lr": lr, **fields})
    with pytest.raises(DivergedError) as raised:
        train(spec, run, checkpointing=EVERY_BATCH)
    state = TrainingState.begin(spec, data.load("digits").take(80))
    for file in (run.checkpoint_file, run.previous_checkpoint_file):
        if file.exists():
            tensors = {name.removeprefix("model."): one for name, one in read_tensors(file)[0].items()}
            state.model.load_state_dict({name: tensors[name] for name in state.model.state_dict()})
            assert find_divergence(state) is None
            assert largest_weight(file) < 1e4
    assert run.checkpoint_file.exists()  # the first rate of the cyclic schedule is 0
    step = json.loads(run.divergence_file.read_text())["step"]
    assert f"training diverged at step {step} in epoch " in str(raised.value)
    assert f"--lr {lr / 10:.3g}" in str(raised.value)
    assert not run.model_file.exists()


def diverging(monkeypatch: pytest.MonkeyPatch, step: int, *, factor: float = 1e20) -> None:
    """Let the weights explode in the given step of runs whose rate is still that of SPEC."""
    train_batch = TrainingState.train_batch

    def exploding(self: TrainingState, index: torch.Tensor) -> torch.Tensor:
        loss = train_batch(self, index)
        if self.progress.step == step and self.peak_rate == SPEC.lr:
            next(self.model.parameters()).data.mul_(factor)
        return loss

    monkeypatch.setattr(TrainingState, "train_batch", exploding)


def test_training_stops_with_the_batch_whose_loss_explodes(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    diverging(monkeypatch, 12)
    message = (
        r"training diverged at step 13 in epoch 3, with a learning rate of [\d.]+: the loss is .*; the state at the "
        rf"end of epoch 2 is kept; continue from there with a smaller rate:\n  ctrobust train --resume --out "
        rf"{run.path} --lr 0\.005$"
    )
    with pytest.raises(DivergedError, match=message):
        train(SPEC, run)
    assert [line["epoch"] for line in run.read_metrics()] == [1, 2]
    assert json.loads(run.divergence_file.read_text()).items() >= {"step": 13, "epoch": 3}.items()


@pytest.mark.parametrize("checkpointing", [EVERY_BATCH, CheckpointPolicy()])
def test_a_diverged_run_continues_with_another_rate_to_the_bits_of_a_run_that_changes_it(
    run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpointing: CheckpointPolicy
) -> None:
    diverging(monkeypatch, 13)
    with pytest.raises(DivergedError):
        train(SPEC, run, checkpointing=checkpointing)
    changed = with_changed_rate(run, SPEC, SPEC.model_copy(update={"lr": 0.01}))
    assert changed.lr_changes == ((2, 0.01),)
    record = train(changed, run, resume=True)
    assert run.read_spec() == changed
    assert record.spec == spec_hash(changed) != spec_hash(SPEC)
    assert "The largest learning rate was changed to 0.01 after epoch 2." in record.warnings
    assert not run.has_diverged
    fresh = RunDirectory(tmp_path / "fresh")
    train(changed, fresh)
    assert run.model_file.read_bytes() == fresh.model_file.read_bytes()
    assert metrics(run) == metrics(fresh)
    rates = [line["lr"] for line in run.read_metrics()]
    assert rates == pytest.approx([0.05 * 8 / 20, 0.05 * 18 / 20, 0.01 * 12 / 20, 0.01 * 2 / 20])


def test_a_run_that_diverges_again_changes_its_rate_again(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    diverging(monkeypatch, 13)
    with pytest.raises(DivergedError):
        train(SPEC, run, checkpointing=EVERY_BATCH)
    first = with_changed_rate(run, SPEC, SPEC.model_copy(update={"lr": 1e20}))
    with pytest.raises(DivergedError, match=r"at the end of epoch 2 is kept"):
        train(first, run, resume=True, checkpointing=EVERY_BATCH)
    second = with_changed_rate(run, first, first.model_copy(update={"lr": 0.01}))
    assert second.lr_changes == ((2, 0.01),)
    assert train(second, run, resume=True).steps == 20


def test_only_the_rate_of_a_diverged_run_can_be_changed(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    other = SPEC.model_copy(update={"lr": 0.01})
    with monkeypatch.context() as patch:
        diverging(patch, 12)
        with pytest.raises(DivergedError):
            train(SPEC, run)
    both = other.model_copy(update={"seed": 1})
    assert with_changed_rate(run, SPEC, both) == both
    assert with_changed_rate(run, SPEC, SPEC) == SPEC
    changed = with_changed_rate(run, SPEC, other)
    with pytest.raises(RunError, match=r"another run: stored and requested, lr_changes \[\] and \[\[2, 0\.01\]\]"):
        train(changed, run)
    run.divergence_file.unlink()
    assert with_changed_rate(run, SPEC, other) == other
    with pytest.raises(RunError, match="holds another run"):
        train(changed, run, resume=True)
    assert train(SPEC, run, resume=True).steps == 20


def test_a_run_that_diverged_in_its_first_epoch_cannot_continue(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    diverging(monkeypatch, 3)
    with pytest.raises(DivergedError, match=r"in epoch 1, .*; start again with a smaller rate, such as --lr 0\.005"):
        train(SPEC, run, checkpointing=EVERY_BATCH)
    with pytest.raises(RunError, match=r"no checkpoint at the end of an epoch .* \(lr 0\.05 and 0\.01\): start"):
        with_changed_rate(run, SPEC, SPEC.model_copy(update={"lr": 0.01}))


@pytest.mark.parametrize("fields", [{"method": "disout"}, {"model": {"name": "resnet18", "width": 4}}], ids=str)
def test_the_check_changes_nothing(fields: dict[str, Any]) -> None:
    spec = train_spec({**FIELDS, **fields, "ema": 0.9})
    one, two = (TrainingState.begin(spec, data.load("digits").take(80)) for _ in range(2))
    for batch in torch.arange(80).split(16):
        for state in (one, two):
            state.wrapped.train()
            state.train_batch(batch)
        assert find_divergence(two) is None
        assert all(module.training for module in two.model.modules())
    expected, found = one.model.state_dict(), two.model.state_dict()
    assert all(torch.equal(expected[name], found[name]) for name in expected)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_momenta_and_averages_that_are_not_finite_are_found(value: float) -> None:
    for change in ("momentum", "average", "weight"):
        state = TrainingState.begin(train_spec({**FIELDS, "ema": 0.9}), data.load("digits").take(80))
        state.wrapped.train()
        state.train_batch(torch.arange(16))
        assert state.average is not None
        tensors = {
            "momentum": next(iter(state.optimizer.state.values()))["momentum_buffer"],
            "average": next(state.average.model.parameters()),
            "weight": next(state.model.parameters()),
        }
        tensors[change].data.view(-1)[0] = value
        assert find_divergence(state) == "a weight is not finite"


def test_the_limit_of_the_loss_includes_the_factors_of_the_recipe() -> None:
    assert largest_loss(SPEC, 10) == pytest.approx(EXPLODED * 2.302585)
    trades = train_spec({"recipe": {"name": "trades", "gamma": 3.0, "beta": 6.0}})
    assert largest_loss(trades, 10) == pytest.approx(EXPLODED * 2.302585 * 2.7182818 * 7)


@pytest.mark.parametrize(
    ("stored", "requested", "expected"),
    [
        ([], [(2, 0.1)], True),
        ([(2, 0.2)], [(2, 0.1)], True),
        ([(1, 0.2)], [(1, 0.2), (3, 0.1)], True),
        ([(1, 0.2), (3, 0.3)], [(1, 0.2), (2, 0.1)], True),
        ([(1, 0.2)], [(3, 0.1)], False),
        ([(1, 0.2)], [], False),
        ([], [(1, 0.2), (3, 0.1)], False),
    ],
)
def test_one_new_change_replaces_those_after_it(stored: list[Any], requested: list[Any], expected: bool) -> None:
    one, two = (SPEC.model_copy(update={"lr_changes": tuple(changes)}) for changes in (stored, requested))
    assert is_rate_change(one, two) is expected
    assert not is_rate_change(one, two.model_copy(update={"seed": 1}))


@pytest.mark.parametrize("changes", [[[0, 0.1]], [[4, 0.1]], [[2, 0.1], [1, 0.1]], [[1, -0.1]], [[1]], [3]])
def test_impossible_changes_of_the_rate_are_refused(changes: Any) -> None:
    with pytest.raises(ValueError, match="lr_changes"):
        train_spec({**FIELDS, "lr_changes": changes})
    assert TrainSpec(epochs=4, lr_changes=((1, 0.1), (3, 0.2))).lr_changes[1] == (3, 0.2)
