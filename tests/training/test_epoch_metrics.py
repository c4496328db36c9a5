"""Evaluation after each epoch: collapse detection, the validation set, and the best epoch."""

import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

from ctrobust import data
from ctrobust.attacks import PGD
from ctrobust.errors import RunError
from ctrobust.evaluation import evaluate
from ctrobust.models import load
from ctrobust.models.tensor_files import read_tensors
from ctrobust.recipes import collapsed as collapsed_since
from ctrobust.specs import train_spec
from ctrobust.store import RunDirectory
from ctrobust.training import CheckpointPolicy, TrainingInterrupted, TrainingState, train
from ctrobust.training.epoch_metrics import measure, update_best
from ctrobust.training.validation_split import hold_out
from tests.training.runs import metrics

# Fast-AT with a step to the corners of a large ball: the network becomes robust to that step alone. After how many
# epochs depends on how a CPU rounds; nine seeds took 6 to 21 epochs.
COLLAPSING: dict[str, Any] = {
    "limit": 1000, "batch_size": 32, "epochs": 60, "lr": 0.05, "stop_on_collapse": True, "model": {"width": 16},
    "schedule": {"name": "multistep", "milestones": [], "warmup": False},
    "recipe": {"name": "fast", "eps": 0.2, "step_size": 0.4},
}  # fmt: skip
FIELDS: dict[str, Any] = {"limit": 60, "batch_size": 16, "epochs": 3, "lr": 0.05, "model": {"width": 8}}


class CheckpointCopier:
    """A callback that copies the checkpoint of the epoch before."""

    def __init__(self, run: RunDirectory) -> None:
        self.run, self.lines = run, list[dict[str, Any]]()

    def step(self, done: int, total: int, epoch: int, loss: float) -> None:
        pass

    def epoch(self, metrics: dict[str, Any]) -> None:
        self.lines.append(metrics)
        if self.run.checkpoint_file.exists():
            shutil.copy(self.run.checkpoint_file, self.run.path / "before")


@pytest.fixture(scope="module")
def collapsed(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    run = RunDirectory(tmp_path_factory.mktemp("collapsed") / "run")
    callback = CheckpointCopier(run)
    train(train_spec(COLLAPSING), run, callback=callback)
    assert callback.lines == run.read_metrics()
    return run


def test_a_run_that_collapses_records_it_and_stops(collapsed: RunDirectory) -> None:
    lines, record = collapsed.read_metrics(), collapsed.read_record()
    assert [line["collapsed"] for line in lines] == [False] * (len(lines) - 1) + [True]
    assert len(lines) < 60
    assert record.collapses is not None
    (collapse,) = record.collapses
    assert collapse.model_dump() == {
        "clean": lines[-1]["watched_clean_accuracy"],
        "epoch": len(lines),
        "before": max(line["watched_accuracy"] for line in lines[:-1]),
        "after": lines[-1]["watched_accuracy"],
        "one_step": lines[-1]["watched_one_step_accuracy"],
    }
    assert collapse.after < 0.6 * collapse.one_step
    assert record.returned_to_epoch == len(lines) - 1
    assert lines[-1]["loss"] < lines[-2]["loss"]  # it did not diverge: it overfits to its own attack


def test_a_collapse_restores_the_weights_of_the_epoch_before(collapsed: RunDirectory) -> None:
    before, model = read_tensors(collapsed.path / "before")[0], read_tensors(collapsed.model_file)[0]
    assert all(torch.equal(before[f"model.{name}"], tensor) for name, tensor in model.items())
    last = read_tensors(collapsed.checkpoint_file)[0]
    assert all(torch.equal(last[f"model.{name}"], tensor) for name, tensor in model.items())
    state = TrainingState.begin(train_spec(COLLAPSING), data.load("digits").take(1000))
    state.progress.epoch = (collapsed.read_record().returned_to_epoch or 0) - 1
    outcome = evaluate(load(collapsed.path), state.first_images(), PGD(eps=0.2, steps=5, step_size=0.05))
    assert outcome.robust_accuracy == collapsed.read_metrics()[-2]["watched_accuracy"]


def test_a_run_killed_after_a_collapse_still_ends_there(collapsed: RunDirectory, tmp_path: Path) -> None:
    run = RunDirectory(Path(shutil.copytree(collapsed.path, tmp_path / "run")))
    run.record_file.unlink()
    run.model_file.unlink()
    record = train(train_spec(COLLAPSING), run, resume=True)
    assert run.model_file.read_bytes() == collapsed.model_file.read_bytes()
    assert record.returned_to_epoch == collapsed.read_record().returned_to_epoch
    assert run.read_metrics() == collapsed.read_metrics()


def test_a_run_killed_before_a_collapse_collapses_again(collapsed: RunDirectory, tmp_path: Path) -> None:
    run = RunDirectory(Path(shutil.copytree(collapsed.path, tmp_path / "run")))
    run.record_file.unlink()
    run.model_file.unlink()
    (run.path / "before").rename(run.checkpoint_file)
    train(train_spec(COLLAPSING), run, resume=True)
    assert run.model_file.read_bytes() == collapsed.model_file.read_bytes()
    assert run.read_record().collapses == collapsed.read_record().collapses


def test_without_stop_on_collapse_training_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([False, True, False])
    monkeypatch.setattr("ctrobust.training.epoch_metrics.collapsed", lambda *_, **__: next(answers))
    run = RunDirectory(tmp_path / "run")
    record = train(train_spec({**FIELDS, "recipe": {"name": "fast"}}), run)
    assert [line["collapsed"] for line in run.read_metrics()] == [False, True, False]
    assert [collapse.epoch for collapse in record.collapses or ()] == [2]
    assert record.returned_to_epoch is None
    assert record.steps == 12


def test_a_collapse_without_a_good_epoch_before_does_not_stop_and_the_average_is_restored_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([True, True, False, True])
    monkeypatch.setattr("ctrobust.training.epoch_metrics.collapsed", lambda *_, **__: next(answers))
    run = RunDirectory(tmp_path / "run")
    spec = train_spec({**FIELDS, "epochs": 5, "ema": 0.5, "stop_on_collapse": True, "recipe": {"name": "fast"}})
    record = train(spec, run, callback=CheckpointCopier(run))
    assert [collapse.epoch for collapse in record.collapses or ()] == [1, 2, 4]
    assert (record.collapses or ())[0].before is None
    assert record.returned_to_epoch == 3
    before, last = read_tensors(run.path / "before")[0], read_tensors(run.checkpoint_file)[0]
    for name, tensor in read_tensors(run.model_file)[0].items():
        assert torch.equal(tensor, before[f"average.{name}"])
        assert torch.equal(last[f"average.{name}"], before[f"average.{name}"])
        assert torch.equal(last[f"model.{name}"], before[f"model.{name}"])


@pytest.mark.parametrize(
    "recipe", [{"name": "fast"}, {"name": "fast", "step_size": 0.2}, {"name": "free", "replays": 2}]
)
def test_collapse_is_detected_on_the_first_256_images_of_the_epoch_as_they_were_trained_on(
    tmp_path: Path, recipe: dict[str, Any]
) -> None:
    spec = train_spec(
        {**FIELDS, "limit": 300, "batch_size": 150, "epochs": 2, "augment": "crop-flip", "recipe": recipe}
    )
    seen: list[torch.Tensor] = []
    run, state = RunDirectory(tmp_path / "run"), TrainingState.begin(spec, data.load("digits").take(300))
    images = TrainingState.images
    with pytest.MonkeyPatch.context() as patch:

        def recording(self: TrainingState, index: torch.Tensor, step: int) -> Any:
            x, y = images(self, index, step)
            seen.append(x)
            return x, y

        patch.setattr(TrainingState, "images", recording)
        train(spec, run)
    del seen[2::4]  # the batch on which the state is checked before it is saved
    first, second, watched = seen[0], seen[1], seen[2]
    assert watched.shape == (256, 1, 28, 28)
    assert torch.equal(first, watched[:150])
    assert not torch.equal(second[:106], watched[150:])  # augmented as the first batch was
    assert torch.equal(seen[3], seen[5][:150])
    model = load(run.path)
    state.progress.epoch = 1
    x, y = state.first_images()
    assert torch.equal(x, seen[5])
    expected = evaluate(model, (x, y), PGD(eps=8 / 255, steps=5, step_size=2 / 255)).robust_accuracy
    assert run.read_metrics()[-1]["watched_accuracy"] == expected
    assert run.read_metrics()[-1]["watched_clean_accuracy"] == evaluate(model, (x, y)).accuracy
    size = recipe.get("step_size", 10 / 255)
    one_step = evaluate(model, (x, y), PGD(eps=8 / 255, steps=1, step_size=size)).robust_accuracy
    assert run.read_metrics()[-1]["watched_one_step_accuracy"] == one_step


@pytest.mark.parametrize(("batch_size", "limit", "count"), [(16, 300, 256), (280, 300, 256), (16, 60, 60)])
def test_collapse_is_detected_on_256_images_or_all_whatever_the_batch_size(
    batch_size: int, limit: int, count: int
) -> None:
    spec = train_spec({**FIELDS, "limit": limit, "batch_size": batch_size, "recipe": {"name": "fast"}})
    assert len(TrainingState.begin(spec, data.load("digits").take(limit)).first_images()[1]) == count


def test_natural_training_has_no_radius_for_collapse_detection() -> None:
    assert TrainingState.begin(train_spec(FIELDS), data.load("digits").take(60)).eps is None


class SimulatedRun:
    """A run whose metrics are given, with weights equal to the number of the epoch."""

    def __init__(self, path: Path, **fields: Any) -> None:
        self.run = RunDirectory(path / "run")
        self.state = TrainingState.begin(train_spec({**FIELDS, **fields}), data.load("digits").take(60))

    def epoch(self, **metrics: Any) -> None:
        progress = self.state.progress
        next(self.state.model.parameters()).data.fill_(progress.epoch + 1)
        update_best(self.state, self.run, metrics)
        progress.epoch += 1

    def watched(self, one_step: float, accuracy: float) -> None:
        has_collapsed = collapsed_since(
            self.state.progress.watched, clean=0.9, recipe_step=one_step, pgd=accuracy, chance=0.1
        )
        self.epoch(watched_one_step_accuracy=one_step, watched_accuracy=accuracy, collapsed=has_collapsed)

    def number(self, model: torch.nn.Module) -> float:
        return next(model.parameters()).flatten()[0].item()


def test_the_best_epoch_is_the_first_of_the_most_robust_ones(tmp_path: Path) -> None:
    simulated = SimulatedRun(tmp_path, validation=20, recipe={"name": "fast"})
    for accuracy, robust in ((0.9, 0.3), (0.5, 0.4), (0.8, 0.4), (0.7, 0.2)):
        simulated.epoch(validation_accuracy=accuracy, validation_robust_accuracy=robust)
    assert simulated.number(load(simulated.run.best_file)) == 2
    assert simulated.state.progress.best == {"epoch": 2, "validation_accuracy": 0.5, "validation_robust_accuracy": 0.4}


def test_a_network_that_stays_collapsed_is_recorded_each_epoch(tmp_path: Path) -> None:
    simulated = SimulatedRun(tmp_path, recipe={"name": "fast"})
    for one_step, accuracy in ((0.4, 0.35), (0.5, 0.02), (0.12, 0.0), (0.3, 0.25), (0.7, 0.0)):
        simulated.watched(one_step, accuracy)
    assert [(collapse["epoch"], collapse["before"]) for collapse in simulated.state.progress.collapses] == [
        (2, 0.35),
        (3, 0.35),
        (5, 0.35),  # the best epoch, not the last good one
    ]
    assert simulated.state.progress.returned_to is None


def test_the_last_good_epoch_is_restored_only_if_there_was_one(tmp_path: Path) -> None:
    simulated = SimulatedRun(tmp_path, recipe={"name": "fast"}, stop_on_collapse=True)
    for one_step, accuracy in ((0.5, 0.1), (0.5, 0.2), (0.3, 0.25), (0.7, 0.0)):
        assert simulated.state.progress.returned_to is None
        simulated.watched(one_step, accuracy)
    assert simulated.state.progress.returned_to == simulated.number(simulated.state.model) == 3


def test_a_run_killed_during_the_evaluation_repeats_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = train_spec({**FIELDS, "validation": 20, "recipe": {"name": "fast"}})
    run, expected = RunDirectory(tmp_path / "run"), RunDirectory(tmp_path / "expected")
    train(spec, expected)
    with monkeypatch.context() as patch:
        patch.setattr("ctrobust.training.loop.measure", mock.Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            train(spec, run)
    progress = read_tensors(run.checkpoint_file)[1]["progress"]
    assert (progress["epoch"], progress["batch"], progress["step"]) == (0, 3, 3)
    train(spec, run, resume=True)
    assert run.model_file.read_bytes() == expected.model_file.read_bytes()
    assert run.best_file.read_bytes() == expected.best_file.read_bytes()
    assert metrics(run) == metrics(expected)


@pytest.mark.parametrize("epoch", [1, 3])
def test_a_stop_requested_during_the_evaluation_takes_effect_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epoch: int
) -> None:
    spec = train_spec({**FIELDS, "recipe": {"name": "fast"}})
    run, expected, evaluated = RunDirectory(tmp_path / "run"), RunDirectory(tmp_path / "expected"), list[int]()
    train(spec, expected)

    def recording(state: TrainingState) -> dict[str, Any]:
        evaluated.append(state.progress.epoch + 1)
        return measure(state)

    with monkeypatch.context() as patch:
        patch.setattr("ctrobust.training.loop.measure", recording)
        with pytest.raises(TrainingInterrupted, match=f"stopped at step {4 * epoch}; "):
            train(spec, run, checkpointing=CheckpointPolicy(stop=lambda: epoch in evaluated))
    assert not run.record_file.exists()
    train(spec, run, resume=True)
    assert run.model_file.read_bytes() == expected.model_file.read_bytes()


def test_collapse_is_detected_on_the_trained_network_and_not_on_its_average(tmp_path: Path) -> None:
    spec = train_spec({**FIELDS, "limit": 300, "epochs": 4, "ema": 0.9, "recipe": {"name": "fast", "eps": 0.02}})
    run, state = RunDirectory(tmp_path / "run"), TrainingState.begin(spec, data.load("digits").take(300))
    train(spec, run)
    state.progress.epoch = 3
    attack = PGD(eps=0.02, steps=5, step_size=0.005)
    average = evaluate(load(run.path), state.first_images(), attack).robust_accuracy
    trained = {name.removeprefix("model."): tensor for name, tensor in read_tensors(run.checkpoint_file)[0].items()}
    state.model.load_state_dict({name: trained[name] for name in state.model.state_dict()})
    expected = evaluate(state.model.eval(), state.first_images(), attack).robust_accuracy
    assert run.read_metrics()[-1]["watched_accuracy"] == expected != average


@pytest.mark.parametrize("ema", [0.0, 0.5])
def test_the_validation_set_is_attacked_each_epoch_and_the_best_weights_are_saved(tmp_path: Path, ema: float) -> None:
    spec = train_spec(
        {**FIELDS, "limit": 300, "validation": 100, "epochs": 4, "ema": ema, "recipe": {"name": "fast", "eps": 0.05}}
    )  # fmt: skip
    run = RunDirectory(tmp_path / "run")
    record = train(spec, run)
    lines = run.read_metrics()
    best = max(lines, key=lambda line: (line["validation_robust_accuracy"], -line["epoch"]))
    assert record.data.train == 200
    assert record.validation is not None
    assert record.validation.model_dump() == {
        "count": 100,
        "best": {key: best[key] for key in ("epoch", "validation_accuracy", "validation_robust_accuracy")},
    }
    _, validation = hold_out(data.load("digits").take(300), 100)
    assert validation is not None
    attack = PGD(eps=0.05, steps=10, step_size=0.0125)
    for file, line in ((run.best_file, best), (run.model_file, lines[-1])):
        outcome = evaluate(load(file), validation, attack)
        assert outcome.accuracy == line["validation_accuracy"]
        assert outcome.robust_accuracy == line["validation_robust_accuracy"]


def test_natural_training_chooses_the_best_epoch_by_accuracy(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    record = train(train_spec({**FIELDS, "validation": 20}), run)
    lines = run.read_metrics()
    assert all(line.keys() >= {"validation_accuracy"} and "watched_accuracy" not in line for line in lines)
    assert record.validation is not None
    assert record.validation.best is not None
    assert record.validation.best["validation_accuracy"] == max(line["validation_accuracy"] for line in lines)
    assert record.collapses is None


def test_a_diverged_network_is_refused(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    with pytest.raises(RunError, match="diverged"):
        train(train_spec({**FIELDS, "lr": 1e6, "validation": 20, "recipe": {"name": "fast"}}), run)
    assert not run.model_file.exists()
