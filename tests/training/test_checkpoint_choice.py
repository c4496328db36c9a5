"""A damaged checkpoint is noticed, and the run continues from the one before."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch

from ctrobust.errors import RunError
from ctrobust.models.tensor_files import DamagedFileError, read_tensors
from ctrobust.specs import train_spec
from ctrobust.store import RunDirectory
from ctrobust.training import CheckpointPolicy, TrainingInterrupted, train
from ctrobust.training.checkpoint import Checkpoint
from tests.training.runs import after, metrics

# 3 batches per epoch
FIELDS: dict[str, Any] = {"limit": 80, "batch_size": 32, "epochs": 3, "lr": 0.1, "model": {"width": 8}}
SPEC = train_spec({**FIELDS, "method": "mdl"})


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """An undisturbed run."""
    run = RunDirectory(tmp_path_factory.mktemp("expected") / "run")
    train(SPEC, run)
    return run


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "run")


def stopped(run: RunDirectory, batches: int) -> None:
    """Train so many batches, with a checkpoint after each."""
    with pytest.raises(TrainingInterrupted):
        train(SPEC, run, checkpointing=CheckpointPolicy(seconds=0.0, stop=after(batches)))


def flip_bit(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place // 8] ^= 1 << place % 8
    path.write_bytes(content)


def position(path: Path) -> tuple[int, int]:
    progress = Checkpoint.read(path).progress
    return progress.epoch, progress.batch


@pytest.mark.parametrize(
    ("batches", "last", "previous"),
    [(1, (0, 1), None), (2, (0, 2), (0, 1)), (4, (1, 1), (1, 0)), (5, (1, 2), (1, 0)), (7, (2, 1), (2, 0))],
)
def test_the_start_of_the_epoch_is_kept_besides_the_last_checkpoint(
    run: RunDirectory, batches: int, last: tuple[int, int], previous: tuple[int, int] | None
) -> None:
    stopped(run, batches)
    assert position(run.checkpoint_file) == last
    assert run.previous_checkpoint_file.exists() == (previous is not None)
    assert previous is None or position(run.previous_checkpoint_file) == previous


def test_every_flipped_bit_of_a_checkpoint_is_noticed(run: RunDirectory) -> None:
    stopped(run, 2)
    content, chance, refused = run.checkpoint_file.read_bytes(), random.Random(0), 0
    for _ in range(60):
        flip_bit(run.checkpoint_file, chance.randrange(8 * len(content)))
        with pytest.raises(DamagedFileError, match=r"last\.safetensors"):
            Checkpoint.read(run.checkpoint_file)
        refused += 1
        run.checkpoint_file.write_bytes(content)
    assert refused == 60


@pytest.mark.parametrize(("batches", "epoch", "batch"), [(2, 0, 1), (5, 1, 0), (8, 2, 0)])
def test_a_damaged_checkpoint_is_set_aside_and_the_run_ends_with_the_same_bits(
    run: RunDirectory, expected: RunDirectory, batches: int, epoch: int, batch: int
) -> None:
    stopped(run, batches)
    flip_bit(run.checkpoint_file, 8 * run.checkpoint_file.stat().st_size - 5)
    damaged = run.checkpoint_file.read_bytes()
    message = (
        r"last\.safetensors is not a whole safetensors file: its checksum .*\(kept as last\.safetensors\.damaged-1\): "
        f"the run continues from the checkpoint before, which has {epoch} finished epochs and {batch} batches"
    )
    with pytest.warns(UserWarning, match=message):
        train(SPEC, run, resume=True)
    assert run.model_file.read_bytes() == expected.model_file.read_bytes()
    assert metrics(run) == metrics(expected)
    assert run.checkpoint_file.with_name("last.safetensors.damaged-1").read_bytes() == damaged


def test_a_run_without_its_last_checkpoint_continues_from_the_one_before(
    run: RunDirectory, expected: RunDirectory
) -> None:
    stopped(run, 5)
    run.checkpoint_file.unlink()
    with pytest.warns(UserWarning, match=r"last\.safetensors is missing: the run continues from the checkpoint before"):
        train(SPEC, run, resume=True)
    assert run.model_file.read_bytes() == expected.model_file.read_bytes()
    assert metrics(run) == metrics(expected)


def test_a_run_without_checkpoints_starts_again_and_says_so(run: RunDirectory, expected: RunDirectory) -> None:
    stopped(run, 5)
    run.checkpoint_file.unlink()
    run.previous_checkpoint_file.unlink()
    with pytest.warns(UserWarning, match=r"run has no checkpoint: training starts again from the first batch"):
        train(SPEC, run, resume=True)
    assert run.model_file.read_bytes() == expected.model_file.read_bytes()
    assert metrics(run) == metrics(expected)


@pytest.mark.parametrize("names", [["last"], ["last", "previous"]])
def test_without_a_good_checkpoint_nothing_is_changed(run: RunDirectory, names: list[str]) -> None:
    stopped(run, 5)
    for file in (run.checkpoint_file, run.previous_checkpoint_file):
        if file.stem in names:
            flip_bit(file, 8 * file.stat().st_size - 1)
        else:
            file.unlink()
    before = {file: file.read_bytes() for file in run.path.rglob("*.*")}
    end = "remove both to start again" if len(names) == 2 else "there is no checkpoint before it: remove it"
    with pytest.raises(RunError, match=rf"last\.safetensors is not a whole .*; {end}"):
        train(SPEC, run, resume=True)
    assert {file: file.read_bytes() for file in run.path.rglob("*.*")} == before


def test_a_checkpoint_of_an_earlier_version_is_resumed_with_a_warning(
    run: RunDirectory, expected: RunDirectory
) -> None:
    stopped(run, 5)
    tensors, metadata = read_tensors(run.checkpoint_file)
    safetensors.torch.save_file(tensors, run.checkpoint_file, {"ctrobust": json.dumps(metadata)})
    with pytest.warns(UserWarning, match=r"last\.safetensors has no checksum, because an earlier version wrote it"):
        train(SPEC, run, resume=True)
    assert run.model_file.read_bytes() == expected.model_file.read_bytes()


def test_damaged_weights_of_a_finished_run_are_written_again(run: RunDirectory, expected: RunDirectory) -> None:
    train(SPEC, run)
    flip_bit(run.model_file, 8 * run.model_file.stat().st_size - 1)
    train(SPEC, run, resume=True)
    assert run.model_file.read_bytes() == expected.model_file.read_bytes()
