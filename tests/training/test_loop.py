"""The training loop."""

import dataclasses
import itertools
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from ctrobust import data, draws
from ctrobust.errors import DataError, InputError, RunError
from ctrobust.evaluation import evaluate
from ctrobust.models import build, load
from ctrobust.models.tensor_files import read_tensors, write_tensors
from ctrobust.regularizers import Regularizer
from ctrobust.specs import METHODS, ScheduleSpec, TrainSpec, spec_hash, train_spec
from ctrobust.store import RunDirectory
from ctrobust.training import CheckpointPolicy, DivergedError, TrainingInterrupted, TrainingState, train
from ctrobust.training.checkpoint import load_checkpoint
from tests.training.runs import after, metrics

# 3 batches per epoch; the last is smaller
FIELDS: dict[str, Any] = {"limit": 80, "batch_size": 32, "epochs": 2, "lr": 0.1, "model": {"width": 8}}
SPEC = train_spec({**FIELDS, "method": "mdl"})


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A finished run of SPEC without interruption."""
    run = RunDirectory(tmp_path_factory.mktemp("finished") / "run")
    train(SPEC, run)
    return run


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "run")


@pytest.mark.parametrize("method", list(METHODS))
def test_every_method_learns(run: RunDirectory, method: str) -> None:
    fields = {"epochs": 4, "batch_size": 16, "lr": 0.04, "model": {"width": 16}}
    record = train(train_spec({**fields, "method": method}), run)
    losses = [line["loss"] for line in run.read_metrics()]
    # the loss of online label smoothing is halved in the first epoch
    assert losses[-1] < losses[1] if method.startswith("online") else losses[-1] < losses[0] - 0.1
    assert record.results.accuracy > 0.6  # far above chance; CPUs that round differently give other networks
    assert record.warnings == ()


def test_a_short_run_reaches_a_small_loss_and_a_high_accuracy(run: RunDirectory) -> None:
    record = train(train_spec({"epochs": 6, "batch_size": 32, "lr": 0.05, "model": {"width": 32}}), run)
    losses = [line["loss"] for line in run.read_metrics()]
    assert losses[-1] < 0.6 < 2 < losses[0]
    assert record.results.accuracy > 0.9


def test_the_same_spec_gives_the_same_bits_and_another_seed_does_not(finished: RunDirectory, tmp_path: Path) -> None:
    expected = finished.model_file.read_bytes()
    repeated, other = RunDirectory(tmp_path / "repeated"), RunDirectory(tmp_path / "other")
    train(SPEC, repeated)
    train(SPEC.model_copy(update={"seed": 1}), other)
    assert repeated.model_file.read_bytes() == expected
    assert metrics(repeated) == metrics(finished)
    assert other.model_file.read_bytes() != expected


@pytest.mark.parametrize("stops", [(1,), (2,), (5,), (1, 1), (2, 2), (1, 1, 2, 1)])
def test_a_stopped_and_resumed_run_has_the_same_bits_and_metrics(
    finished: RunDirectory, run: RunDirectory, stops: tuple[int, ...]
) -> None:
    step = 0
    for batches in stops:
        step += batches
        with pytest.raises(TrainingInterrupted, match=f"stopped at step {step}; the state is saved in"):
            train(SPEC, run, resume=True, checkpointing=CheckpointPolicy(stop=after(batches)))
        assert not run.model_file.exists()
        assert not run.record_file.exists()
    record = train(SPEC, run, resume=True)
    assert run.model_file.read_bytes() == finished.model_file.read_bytes()
    assert metrics(run) == metrics(finished)
    assert record.results == finished.read_record().results
    assert record.steps == 6


@pytest.mark.parametrize("method", [name for name in METHODS if name != "mdl"])
def test_every_method_resumes_to_the_same_bits(tmp_path: Path, method: str) -> None:
    spec = train_spec({**FIELDS, "method": method})
    uninterrupted, resumed = RunDirectory(tmp_path / "uninterrupted"), RunDirectory(tmp_path / "resumed")
    train(spec, uninterrupted)
    for _ in range(6):  # after each step, also at the ends of epochs
        with pytest.raises(TrainingInterrupted):
            train(spec, resumed, resume=True, checkpointing=CheckpointPolicy(stop=after(1)))
    train(spec, resumed, resume=True)
    assert resumed.model_file.read_bytes() == uninterrupted.model_file.read_bytes()
    assert [line["loss"] for line in resumed.read_metrics()] == [line["loss"] for line in uninterrupted.read_metrics()]


def test_the_number_of_checkpoints_does_not_change_the_result(finished: RunDirectory, run: RunDirectory) -> None:
    train(SPEC, run, checkpointing=CheckpointPolicy(seconds=0.0))
    assert run.model_file.read_bytes() == finished.model_file.read_bytes()
    assert metrics(run) == metrics(finished)


def test_a_run_killed_before_its_record_was_written_writes_it_when_resumed(
    finished: RunDirectory, run: RunDirectory
) -> None:
    train(SPEC, run)
    run.record_file.unlink()
    run.model_file.unlink()
    record = train(SPEC, run, resume=True)
    assert run.model_file.read_bytes() == finished.model_file.read_bytes()
    assert record.results == finished.read_record().results
    assert metrics(run) == metrics(finished)


def test_metrics_after_the_checkpoint_are_replaced(finished: RunDirectory, run: RunDirectory) -> None:
    with pytest.raises(TrainingInterrupted):
        train(SPEC, run, checkpointing=CheckpointPolicy(stop=after(2)))
    run.add_metrics({"epoch": 1, "loss": -1.0})
    with run.metrics_file.open("a") as file:
        file.write('{"epoch": 2, "lo')
    train(SPEC, run, resume=True)
    assert metrics(run) == metrics(finished)


def test_resuming_a_finished_run_returns_its_record_and_changes_nothing(finished: RunDirectory) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished.path.rglob("*.*") if path.name != ".lock"}
    record = train(SPEC, finished, resume=True)
    assert record == finished.read_record()
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_an_existing_run_is_not_overwritten(finished: RunDirectory) -> None:
    with pytest.raises(RunError, match=r"holds this run already: add --resume to continue it"):
        train(SPEC, finished)


@pytest.mark.parametrize("resume", [True, False])
def test_another_run_is_refused(finished: RunDirectory, resume: bool) -> None:
    other = SPEC.model_copy(update={"seed": 1})
    with pytest.raises(RunError, match="holds another run: stored and requested, seed 0 and 1"):
        train(other, finished, resume=resume)


def test_a_checkpoint_of_another_run_is_refused(run: RunDirectory, tmp_path: Path) -> None:
    other = RunDirectory(tmp_path / "other")
    for seed, place in ((0, run), (1, other)):
        with pytest.raises(TrainingInterrupted):
            train(SPEC.model_copy(update={"seed": seed}), place, checkpointing=CheckpointPolicy(stop=after(1)))
    run.checkpoint_file.write_bytes(other.checkpoint_file.read_bytes())
    with pytest.raises(RunError, match="belongs to a run of spec"):
        train(SPEC, run, resume=True)


def test_a_run_in_use_is_refused(run: RunDirectory) -> None:
    with run.locked(), pytest.raises(RunError, match="in use by another process"):
        train(SPEC, run)
    assert not run.spec_file.exists()


def test_unknown_data_is_refused_before_anything_is_written(run: RunDirectory, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown data set 'mnst'; did you mean 'mnist'"):
        train(train_spec({"data": "mnst"}), run)
    with pytest.raises(DataError, match="does not exist"):
        train(train_spec({"data": "mnist"}), run, data_root=tmp_path / "nowhere")
    assert not run.path.exists()


def test_a_diverged_loss_ends_the_run_and_is_never_saved(run: RunDirectory) -> None:
    spec = train_spec({**FIELDS, "lr": 1e6, "epochs": 5})
    for resume in (False, True):
        with pytest.raises(DivergedError, match=r"training diverged at step \d+ in epoch 1, with a learning rate of "):
            train(spec, run, resume=resume, checkpointing=CheckpointPolicy(seconds=0.0))
        tensors, metadata = read_tensors(run.checkpoint_file)
        assert all(tensor.isfinite().all() for tensor in tensors.values())
        assert metadata["progress"]["loss_sum"] < float("inf")
        assert 0 < metadata["progress"]["step"] < 15
        assert not run.model_file.exists()
        assert "NaN" not in run.metrics_file.read_text()


def test_torchs_global_generator_is_neither_changed_nor_used(finished: RunDirectory, run: RunDirectory) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(12345)
        before = torch.get_rng_state()
        train(SPEC, run)
        assert torch.equal(torch.get_rng_state(), before)
    assert run.model_file.read_bytes() == finished.model_file.read_bytes()


def test_the_record_describes_results_data_times_and_environment(finished: RunDirectory) -> None:
    record = finished.read_record()
    assert record.spec == spec_hash(SPEC)
    assert record.data.model_dump(exclude={"classes"}) == {"name": "digits", "train": 80, "test": 355, "verified": True}
    assert record.steps == 6
    assert len(record.seconds_per_epoch) == 2
    seconds = [line["cpu_seconds"] for line in finished.read_metrics()]
    assert len(seconds) == 2
    assert list(record.cpu_seconds_per_epoch or ()) == seconds
    assert min(seconds) > 0
    assert record.results.count == 355
    assert record.environment["versions"]["torch"] == torch.__version__
    assert finished.read_spec() == SPEC


@pytest.mark.parametrize("changed", ["train", "test"])
def test_unpublished_data_in_either_split_are_recorded_as_unverified(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    published = data.load

    def unverified(name: str, split: str, root: Path | None) -> data.Dataset:
        return dataclasses.replace(published(name, split, root), verified=split != changed)

    monkeypatch.setattr(data, "load", unverified)
    record = train(SPEC, run)
    assert record.data.model_dump(exclude={"classes"}) == {
        "name": "digits",
        "train": 80,
        "test": 355,
        "verified": False,
    }


def test_a_run_whose_data_changed_is_refused_until_they_are_restored(run: RunDirectory, tmp_path: Path) -> None:
    file, digits = tmp_path / "images.npz", data.load("digits", "train").take(90)
    images, labels = digits.images.numpy(), digits.labels.numpy()
    spec = train_spec({**FIELDS, "data": f"npz:{file}", "model": {"name": "mnistnet", "width": 8}})
    np.savez(file, images=images, labels=labels)
    with pytest.raises(TrainingInterrupted):
        train(spec, run, checkpointing=CheckpointPolicy(stop=after(2)))
    saved = run.checkpoint_file.read_bytes()
    np.savez(file, images=images[::-1], labels=labels[::-1])
    with pytest.raises(RunError, match=r"images\.npz has other training images or labels than when .*: restore those"):
        train(spec, run, resume=True)
    assert run.checkpoint_file.read_bytes() == saved
    np.savez(file, images=images, labels=labels)
    assert train(spec, run, resume=True).steps > 2


def test_a_run_of_published_data_does_not_resume_with_others(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TrainingInterrupted):
        train(SPEC, run, checkpointing=CheckpointPolicy(stop=after(2)))
    published = data.load

    def changed(*args: Any) -> data.Dataset:
        found = published(*args)
        return dataclasses.replace(found, labels=(found.labels + 1) % 10, verified=False)

    monkeypatch.setattr(data, "load", changed)
    with pytest.raises(
        RunError, match=r"digits has other training images .*, before the published ones\): restore those"
    ):
        train(SPEC, run, resume=True)


def test_a_run_without_its_weights_is_not_finished(finished: RunDirectory, run: RunDirectory) -> None:
    train(SPEC, run)
    run.model_file.unlink()
    train(SPEC, run, resume=True)
    assert run.model_file.read_bytes() == finished.model_file.read_bytes()


def test_metrics_are_on_the_disk_before_the_checkpoint_that_follows_them(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync, replace = os.fsync, os.replace
    synced, epochs = 0, list[int]()

    def recording_fsync(handle: int) -> None:
        nonlocal synced
        fsync(handle)
        if run.metrics_file.exists() and os.path.samestat(os.fstat(handle), run.metrics_file.stat()):
            synced = len(run.read_metrics())

    def checking_replace(source: str, target: Path) -> None:
        if target == run.checkpoint_file:
            epochs.append(read_tensors(Path(source))[1]["progress"]["epoch"])
            assert synced == epochs[-1]
        replace(source, target)

    monkeypatch.setattr(os, "fsync", recording_fsync)
    monkeypatch.setattr(os, "replace", checking_replace)
    train(SPEC, run)
    assert epochs == [1, 2]


def test_a_batch_too_small_for_batchnorm_is_refused(run: RunDirectory, tmp_path: Path) -> None:
    file, generator = tmp_path / "small.npz", np.random.default_rng(0)
    images, labels = generator.integers(0, 256, (33, 8, 8), np.uint8), np.arange(33) % 3
    np.savez(file, images_train=images, labels_train=labels, images_test=images, labels_test=labels)
    spec = {"data": f"npz:{file}", "model": {"name": "resnet18", "width": 8}, "batch_size": 16, "epochs": 1}
    with pytest.raises(InputError, match="BatchNorm cannot normalize a batch of 1 images that shrink to one pixel"):
        train(train_spec(spec), run)


def test_the_metrics_hold_the_learning_rates_of_the_schedule(finished: RunDirectory) -> None:
    lines = metrics(finished)
    assert [(line["epoch"], line["step"]) for line in lines] == [(1, 3), (2, 6)]
    assert [line["lr"] for line in lines] == pytest.approx([0.1 * 4 / 6, 0.1 * 2 / 6])  # of steps 2 and 5 of 6


def test_the_loaded_network_is_the_trained_one(finished: RunDirectory) -> None:
    train_set, test_set = data.load("digits", "train").take(80), data.load("digits", "test")
    state = TrainingState.begin(SPEC, train_set)
    load_checkpoint(finished.checkpoint_file, SPEC, state.model, state.optimizer, state.recipe)
    x = data.to_float(test_set.images)
    for path in (finished.path, finished.model_file):
        model = load(path)
        assert not model.training
        assert torch.equal(model(x), state.model.eval()(x))
    assert evaluate(load(finished.path), test_set).accuracy == finished.read_record().results.accuracy


def test_an_unfinished_run_cannot_be_loaded(run: RunDirectory) -> None:
    with pytest.raises(TrainingInterrupted):
        train(SPEC, run, checkpointing=CheckpointPolicy(stop=after(1)))
    with pytest.raises(RunError, match="is not finished: ctrobust train --resume --out "):
        load(run.path)


class Recorder:
    """A callback that keeps its arguments."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int, int]] = []
        self.epochs: list[dict[str, Any]] = []

    def step(self, done: int, total: int, epoch: int, loss: float) -> None:
        assert 0 < loss < 10
        self.steps.append((done, total, epoch))

    def epoch(self, metrics: dict[str, Any]) -> None:
        self.epochs.append(metrics)


def test_the_callback_is_called_for_batches_and_epochs(run: RunDirectory) -> None:
    callback = Recorder()
    train(SPEC, run, callback=callback)
    assert callback.epochs == run.read_metrics()
    assert {(3, 6, 0), (6, 6, 1)} <= set(callback.steps)
    assert callback.steps == sorted(callback.steps)


def test_every_epoch_visits_all_examples_in_another_order(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    train_batch = TrainingState.train_batch

    def recording(self: TrainingState, index: torch.Tensor) -> torch.Tensor:
        seen.extend(index.tolist())
        return train_batch(self, index)

    monkeypatch.setattr(TrainingState, "train_batch", recording)
    train(SPEC, run)
    assert sorted(seen[:80]) == sorted(seen[80:]) == list(range(80))
    assert seen[:80] != seen[80:]


def test_arguments_of_other_types_are_refused(run: RunDirectory) -> None:
    fields: Any = FIELDS
    path: Any = run.path
    with pytest.raises(InputError, match=r"train takes a TrainSpec, .* got dict and RunDirectory"):
        train(fields, run)
    with pytest.raises(InputError, match=r"got TrainSpec and \w*Path"):
        train(SPEC, path)
    assert not run.path.exists()


def test_a_run_with_more_epochs_is_another_run(run: RunDirectory, finished: RunDirectory) -> None:
    longer: TrainSpec = SPEC.model_copy(update={"epochs": 3})
    with pytest.raises(RunError, match="holds another run"):
        train(longer, finished, resume=True)
    assert train(longer, run).steps == 9


@pytest.mark.parametrize("more", [{"validation": 8}, {"recipe": {"name": "fast"}}])
def test_the_network_is_in_training_mode_for_every_batch_also_after_an_evaluation(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any]
) -> None:
    modes: list[set[bool]] = []
    train_batch = TrainingState.train_batch

    def recording(self: TrainingState, index: torch.Tensor) -> torch.Tensor:
        modes.append({module.training for module in self.model.modules()})
        return train_batch(self, index)

    monkeypatch.setattr(TrainingState, "train_batch", recording)
    train(train_spec({**FIELDS, **more}), run)
    assert modes == [{True}] * 6


@pytest.mark.parametrize(("recipe", "replays"), [({}, 1), ({"name": "free", "replays": 3}, 3)])
def test_regularizers_receive_seed_step_keys_and_progress(recipe: dict[str, Any], replays: int) -> None:
    model = {"width": 8, "noise": "dropout", "maps": "dropblock"}
    state = TrainingState.begin(
        train_spec({**FIELDS, "seed": 7, "model": model, "recipe": recipe}), data.load("digits").take(80)
    )
    state.wrapped.train()
    regularizers = [module for module in state.model.modules() if isinstance(module, Regularizer)]
    assert len(regularizers) == 2
    for step in (0, replays, 2 * replays):
        index = torch.arange(step, step + 8)
        state.train_batch(index)
        for position, regularizer in enumerate(regularizers):
            assert regularizer.step_key is not None
            assert regularizer.step_key.stream == draws.stream(7, "regularizer", position, step)
            assert regularizer.step_key.progress == pytest.approx(step / (6 * replays))
            assert torch.equal(regularizer.step_key.keys, index)


def test_the_initial_weights_follow_from_the_seed() -> None:
    train_set = data.load("digits").take(80)
    state = TrainingState.begin(SPEC.model_copy(update={"seed": 7}), train_set)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        expected = build("mnistnet", 10, 1, 8)
    for one, two in zip(state.model.parameters(), expected.parameters(), strict=True):
        assert torch.equal(one, two)


def test_cpu_seconds_before_and_after_a_stop_are_added(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()
    monkeypatch.setattr("ctrobust.training.loop.time.process_time", lambda: 100.0 + next(clock))
    with pytest.raises(TrainingInterrupted):
        train(SPEC, run, checkpointing=CheckpointPolicy(stop=after(2)))
    (saved,) = read_tensors(run.checkpoint_file)[1]["progress"]["cpu_seconds"]
    assert saved == 1.0  # read at the start of the epoch and at the checkpoint
    record = train(SPEC, run, resume=True)
    assert record.cpu_seconds_per_epoch == (2.0, 2.0)  # the second epoch includes the checkpoint at its start


def test_a_run_of_an_earlier_version_resumes_with_unknown_cpu_seconds(
    finished: RunDirectory, run: RunDirectory
) -> None:
    with pytest.raises(TrainingInterrupted):
        train(SPEC, run, checkpointing=CheckpointPolicy(stop=after(2)))
    tensors, metadata = read_tensors(run.checkpoint_file)
    del metadata["progress"]["cpu_seconds"]
    write_tensors(run.checkpoint_file, tensors, metadata)
    record = train(SPEC, run, resume=True)
    first, second = record.cpu_seconds_per_epoch or ()
    assert first is None
    assert second is not None
    assert second > 0
    assert ["cpu_seconds" in line for line in run.read_metrics()] == [False, True]
    assert run.model_file.read_bytes() == finished.model_file.read_bytes()


def test_the_momentum_is_cycled_if_the_spec_says_so(run: RunDirectory) -> None:
    momenta: list[float] = []
    hook = register_optimizer_step_pre_hook(lambda optimizer, *_: momenta.append(optimizer.param_groups[0]["momentum"]))
    try:
        train(SPEC.model_copy(update={"schedule": ScheduleSpec(cycle_momentum=True)}), run)
    finally:
        hook.remove()
    assert momenta == pytest.approx([0.9 - 0.1 * 2 * min(step, 6 - step) / 6 for step in range(6)])


def test_an_error_of_the_operating_system_in_a_callback_is_not_one_of_the_run_directory(run: RunDirectory) -> None:
    class Failing(Recorder):
        def epoch(self, metrics: dict[str, Any]) -> None:
            raise PermissionError(13, f"epoch {metrics['epoch']}")

    with pytest.raises(PermissionError, match="epoch 1"):
        train(SPEC, run, callback=Failing())
