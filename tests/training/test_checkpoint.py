"""The state of a run between two batches."""

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


def advance(run: TrainingState, first: int, last: int) -> TrainingState:
    run.model.train()
    for batch in range(first, last):
        run.batch(BATCHES[batch])
    return run


def save(run: TrainingState, path: Path, name: str | None = None) -> Path:
    checkpoint.save_checkpoint(path, name or spec_hash(run.spec), run.progress, run.model, run.optimizer, run.recipe)
    return path


def restore(path: Path, run: TrainingState) -> checkpoint.TrainingProgress:
    return checkpoint.load_checkpoint(path, spec_hash(run.spec), run.model, run.optimizer, run.recipe)


def same_weights(one: TrainingState, two: TrainingState) -> bool:
    first, second = one.model.state_dict(), two.model.state_dict()
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("momentum", [0.9, 0.0])
def test_a_restored_run_goes_on_to_the_same_bits(tmp_path: Path, momentum: float) -> None:
    spec = train_spec({**FIELDS, "momentum": momentum})
    run = advance(begin(spec), 0, 2)
    path = save(run, tmp_path / "last.safetensors")
    again = begin(spec)
    assert not same_weights(again, run)
    again.progress = restore(path, again)
    assert again.progress == run.progress
    assert same_weights(again, run)
    assert same_weights(advance(again, 2, 4), advance(run, 2, 4))


def test_the_momentum_is_part_of_the_state(tmp_path: Path) -> None:
    run = advance(begin(), 0, 2)
    path = save(run, tmp_path / "last.safetensors")
    tensors, note = read_tensors(path)
    kept = {name: value for name, value in tensors.items() if not name.startswith("optimizer.")}
    assert len(tensors) - len(kept) == len(list(run.model.parameters()))
    write_tensors(path, kept, note)
    again = begin()
    again.progress = restore(path, again)
    assert not same_weights(advance(again, 2, 4), advance(run, 2, 4))


def test_progress_is_restored_to_the_bit(tmp_path: Path) -> None:
    run = begin()
    run.progress = checkpoint.TrainingProgress(epoch=1, batch=3, step=7, loss_sum=0.1 + 0.2, seconds=[1.25, 1 / 3])
    assert restore(save(run, tmp_path / "c"), begin()) == run.progress


def test_a_checkpoint_of_another_spec_is_refused(tmp_path: Path) -> None:
    other = train_spec({**FIELDS, "seed": 1})
    path = save(begin(other), tmp_path / "c")
    message = f"c belongs to a run of spec {spec_hash(other)}, this one is {spec_hash(SPEC)}"
    with pytest.raises(RunError, match=message):
        restore(path, begin())


def test_a_checkpoint_of_another_network_is_refused(tmp_path: Path) -> None:
    wide = begin(train_spec({**FIELDS, "model": {"width": 10}}))
    path = save(wide, tmp_path / "c", name=spec_hash(SPEC))
    with pytest.raises(RunError, match=r"c is not a checkpoint of this run: [\s\S]*size mismatch"):
        restore(path, begin())


@pytest.mark.parametrize(
    "change",
    [
        lambda tensors, _note: tensors.pop("model.head.0.weight"),
        lambda tensors, _note: tensors.update({"model.other": torch.zeros(1)}),
        lambda tensors, _note: tensors.update({"optimizer.99.momentum_buffer": torch.zeros(1)}),
        lambda tensors, _note: tensors.update({"optimizer.x.momentum_buffer": torch.zeros(1)}),
        lambda tensors, _note: tensors.update({"optimizer.0.momentum_buffer": torch.zeros(2, 2)}),
        lambda _tensors, note: note.pop("progress"),
        lambda _tensors, note: note["progress"].update({"colour": 1}),
    ],
)
def test_a_checkpoint_with_other_contents_is_refused(tmp_path: Path, change: Any) -> None:
    path = save(advance(begin(), 0, 1), tmp_path / "c")
    tensors, note = read_tensors(path)
    change(tensors, note)
    write_tensors(path, tensors, note)
    with pytest.raises(RunError, match="c is not a checkpoint of this run"):
        restore(path, begin())


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_checkpoint_cut_off_is_refused(tmp_path: Path, share: float) -> None:
    path = save(begin(), tmp_path / "c")
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(RunError, match="c is not a whole safetensors file"):
        restore(path, begin())


def test_a_missing_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no file"):
        restore(tmp_path / "c", begin())
