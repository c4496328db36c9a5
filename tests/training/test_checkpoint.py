"""Checkpoints: the state of a run between two batches."""

from pathlib import Path
from typing import Any

import pytest
import torch

from ctrobust import data
from ctrobust.errors import RunError
from ctrobust.models.tensor_files import read_tensors, write_tensors
from ctrobust.specs import TrainSpec, spec_hash, train_spec
from ctrobust.training import TrainingState, checkpoint

FIELDS: dict[str, Any] = {"method": "mdl", "limit": 96, "batch_size": 24, "epochs": 2, "lr": 0.1, "model": {"width": 8}}
SPEC = train_spec(FIELDS)
BATCHES = torch.split(torch.arange(96), 24)


def begin(spec: TrainSpec = SPEC) -> TrainingState:
    return TrainingState.begin(spec, data.load("digits", "train").take(spec.limit))


def advance(state: TrainingState, first: int, last: int) -> TrainingState:
    state.model.train()
    for batch in range(first, last):
        state.train_batch(BATCHES[batch])
    return state


def save(state: TrainingState, path: Path, spec: TrainSpec | None = None) -> Path:
    spec = spec or state.spec
    checkpoint.save_checkpoint(path, spec, state.progress, state.model, state.optimizer, state.recipe)
    return path


def restore(path: Path, state: TrainingState) -> checkpoint.TrainingProgress:
    return checkpoint.load_checkpoint(path, state.spec, state.model, state.optimizer, state.recipe)


def same_weights(one: TrainingState, two: TrainingState) -> bool:
    first, second = one.model.state_dict(), two.model.state_dict()
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("momentum", [0.9, 0.0])
def test_a_restored_run_continues_to_the_same_bits(tmp_path: Path, momentum: float) -> None:
    spec = train_spec({**FIELDS, "momentum": momentum})
    state = advance(begin(spec), 0, 2)
    path = save(state, tmp_path / "last.safetensors")
    restored = begin(spec)
    assert not same_weights(restored, state)
    restored.progress = restore(path, restored)
    assert restored.progress == state.progress
    assert same_weights(restored, state)
    assert same_weights(advance(restored, 2, 4), advance(state, 2, 4))


def test_a_checkpoint_holds_the_momentum(tmp_path: Path) -> None:
    state = advance(begin(), 0, 2)
    path = save(state, tmp_path / "last.safetensors")
    tensors, metadata = read_tensors(path)
    without = {name: value for name, value in tensors.items() if not name.startswith("optimizer.")}
    assert len(tensors) - len(without) == len(list(state.model.parameters()))
    write_tensors(path, without, metadata)
    restored = begin()
    restored.progress = restore(path, restored)
    assert not same_weights(advance(restored, 2, 4), advance(state, 2, 4))


def test_progress_is_restored_to_the_bit(tmp_path: Path) -> None:
    state = begin()
    state.progress = checkpoint.TrainingProgress(
        epoch=1, batch=3, step=7, loss_sum=0.1 + 0.2, seconds=[1.25, 1 / 3], cpu_seconds=[None, 1 / 7]
    )
    assert restore(save(state, tmp_path / "c"), begin()) == state.progress


def test_a_checkpoint_of_an_earlier_version_has_unknown_cpu_seconds(tmp_path: Path) -> None:
    state = begin()
    state.progress = checkpoint.TrainingProgress(epoch=2, step=8, seconds=[1.25, 1.5, 0.25])
    path = save(state, tmp_path / "c")
    tensors, metadata = read_tensors(path)
    del metadata["progress"]["cpu_seconds"]
    write_tensors(path, tensors, metadata)
    restored = restore(path, begin())
    assert restored.cpu_seconds == [None, None, None]
    assert (restored.epoch, restored.seconds) == (2, [1.25, 1.5, 0.25])


def test_a_checkpoint_of_another_spec_is_refused(tmp_path: Path) -> None:
    other = train_spec({**FIELDS, "seed": 1})
    path = save(begin(other), tmp_path / "c")
    message = f"c belongs to a run of spec {spec_hash(other)}, this one is {spec_hash(SPEC)}"
    with pytest.raises(RunError, match=message):
        restore(path, begin())


def test_a_checkpoint_of_another_network_is_refused(tmp_path: Path) -> None:
    wide = begin(train_spec({**FIELDS, "model": {"width": 10}}))
    path = save(wide, tmp_path / "c", spec=SPEC)
    with pytest.raises(RunError, match=r"c is not a checkpoint of this run: [\s\S]*size mismatch"):
        restore(path, begin())


@pytest.mark.parametrize(
    "change",
    [
        lambda tensors, _metadata: tensors.pop("model.head.0.weight"),
        lambda tensors, _metadata: tensors.update({"model.other": torch.zeros(1)}),
        lambda tensors, _metadata: tensors.update({"optimizer.99.momentum_buffer": torch.zeros(1)}),
        lambda tensors, _metadata: tensors.update({"optimizer.x.momentum_buffer": torch.zeros(1)}),
        lambda tensors, _metadata: tensors.update({"optimizer.0.momentum_buffer": torch.zeros(2, 2)}),
        lambda _tensors, metadata: metadata.pop("progress"),
        lambda _tensors, metadata: metadata["progress"].update({"colour": 1}),
        lambda _tensors, metadata: metadata["progress"].update({"epoch": -1}),
        lambda _tensors, metadata: metadata["progress"].update({"epoch": "1"}),
        lambda _tensors, metadata: metadata["progress"].update({"loss_sum": float("nan")}),
        lambda _tensors, metadata: metadata["progress"].update({"seconds": []}),
        lambda _tensors, metadata: metadata["progress"].update({"environments": [3]}),
        lambda _tensors, metadata: metadata.update({"progress": [1]}),
        lambda _tensors, metadata: metadata.update({"sha257": "0"}),
    ],
)
def test_a_checkpoint_with_other_contents_is_refused(tmp_path: Path, change: Any) -> None:
    path = save(advance(begin(), 0, 1), tmp_path / "c")
    tensors, metadata = read_tensors(path)
    change(tensors, metadata)
    write_tensors(path, tensors, metadata)
    with pytest.raises(RunError, match="c is not a checkpoint of this run"):
        restore(path, begin())


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_truncated_checkpoint_is_refused(tmp_path: Path, share: float) -> None:
    path = save(begin(), tmp_path / "c")
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(RunError, match="c is not a whole safetensors file"):
        restore(path, begin())


def test_a_missing_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no file"):
        restore(tmp_path / "c", begin())
