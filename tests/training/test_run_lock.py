"""Rank 0 alone looks at the run directory; the other processes follow its decision."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning_fabric import Fabric

from ctrobust import data
from ctrobust.errors import RunError
from ctrobust.specs import train_spec
from ctrobust.store import RunDirectory
from ctrobust.training import CheckpointPolicy, TrainingInterrupted, TrainingState, train
from ctrobust.training.loop import _train
from ctrobust.training.run_lock import open_run
from ctrobust.training.training_callback import NoCallback
from tests.store.test_run_directory import holder
from tests.training.runs import after

SPEC = train_spec({"limit": 48, "batch_size": 16, "epochs": 1, "model": {"width": 8}})


class OtherProcess(Fabric):
    """A process that is not rank 0, and receives what rank 0 would broadcast."""

    is_global_zero = False

    def __init__(self, *received: Any) -> None:
        super().__init__(accelerator="cpu", devices=1)
        self.received = list(received)

    def broadcast(self, obj: Any, src: int = 0) -> Any:  # noqa: ARG002
        return self.received.pop(0) if self.received else obj


@pytest.fixture
def stopped(tmp_path: Path) -> RunDirectory:
    """A run with a checkpoint after its first batch."""
    run = RunDirectory(tmp_path / "run")
    with pytest.raises(TrainingInterrupted):
        train(SPEC, run, checkpointing=CheckpointPolicy(stop=after(1)))
    return run


@pytest.mark.parametrize(("has_checkpoint", "steps"), [(False, [0, 1, 2]), (True, [1, 2])])
def test_another_process_resumes_if_rank_0_does_whatever_it_finds_on_its_own_disk(
    stopped: RunDirectory, monkeypatch: pytest.MonkeyPatch, has_checkpoint: bool, steps: list[int]
) -> None:
    seen: list[int] = []
    train_batch = TrainingState.train_batch

    def recording(self: TrainingState, index: torch.Tensor) -> torch.Tensor:
        seen.append(self.progress.step)
        return train_batch(self, index)

    monkeypatch.setattr(TrainingState, "train_batch", recording)
    record: Any = {"steps": 3}
    fabric = OtherProcess((None, has_checkpoint), {}, record)
    digits = data.load("digits")
    received = _train(fabric, SPEC, stopped, digits.take(48), digits, True, NoCallback(), CheckpointPolicy())
    assert seen == steps
    assert received is record  # other processes may not see the file that rank 0 wrote
    assert not stopped.record_file.exists()


def test_another_process_raises_the_error_of_rank_0(stopped: RunDirectory) -> None:
    error = RunError("the run is in use")
    with contextlib.ExitStack() as stack, pytest.raises(RunError) as raised:
        open_run(stack, OtherProcess((error, False)), stopped, SPEC, resume=True)
    assert raised.value is error


def test_rank_0_decides_by_its_disk(stopped: RunDirectory, tmp_path: Path) -> None:
    fabric = Fabric(accelerator="cpu", devices=1)
    for run, expected in ((stopped, True), (RunDirectory(tmp_path / "new"), False)):
        with contextlib.ExitStack() as stack:
            assert open_run(stack, fabric, run, SPEC, resume=True).has_checkpoint == expected
            with pytest.raises(RunError, match="in use by another process"), run.locked():
                pytest.fail("the lock is not held")


class Moving(NoCallback):
    """A callback that moves the run directory away after the first epoch, and puts another one in its place."""

    def __init__(self, run: RunDirectory, *, replaced: bool) -> None:
        self.run, self.replaced = run, replaced

    def epoch(self, metrics: dict[str, Any]) -> None:
        if metrics["epoch"] == 1:
            self.run.path.rename(self.run.path.with_name("moved"))
            if self.replaced:
                self.run.write_spec(SPEC)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_run_whose_directory_was_moved_stops_and_writes_nothing_more(tmp_path: Path, replaced: bool) -> None:
    run, moved = RunDirectory(tmp_path / "run"), RunDirectory(tmp_path / "moved")
    what = "replaced" if replaced else "removed or renamed"
    with pytest.raises(RunError, match=f"run was {what} while this process used it; the process stops"):
        train(SPEC.model_copy(update={"epochs": 3}), run, callback=Moving(run, replaced=replaced))
    assert [path.name for path in tmp_path.rglob("run/*")] == (["spec.json"] if replaced else [])
    assert [line["epoch"] for line in moved.read_metrics()] == [1]


def test_a_second_process_does_not_train_after_the_lock_file_was_removed(stopped: RunDirectory) -> None:
    before = stopped.checkpoint_file.read_bytes()
    with holder(stopped):
        for path in stopped.path.glob(".*"):
            path.unlink()
        with pytest.raises(RunError, match="run is in use by another process"):
            train(SPEC, stopped, resume=True)
    assert stopped.checkpoint_file.read_bytes() == before
    assert train(SPEC, stopped, resume=True).steps == 3
