"""Regression tests of runs, their files and the splitting of networks."""

from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import nn

from ctrobust import data
from ctrobust.errors import InputError, RunError, SpecError
from ctrobust.models import build_from_spec, load, save_weights, split
from ctrobust.models.tensor_files import read_tensors, write_tensors
from ctrobust.regularizers import Dropout
from ctrobust.specs import ModelSpec, from_canonical, train_spec
from ctrobust.store import RunDirectory
from ctrobust.training import CheckpointPolicy, TrainingInterrupted, train
from tests.training.runs import after

X = torch.rand(4, 1, 28, 28)
SPEC = train_spec({"limit": 80, "batch_size": 32, "epochs": 2, "lr": 0.1, "model": {"width": 8}, "method": "mdl"})


def test_metrics_are_the_same_after_a_stop_at_the_end_of_an_epoch(tmp_path: Path) -> None:
    uninterrupted, resumed = RunDirectory(tmp_path / "uninterrupted"), RunDirectory(tmp_path / "resumed")
    train(SPEC, uninterrupted)
    with pytest.raises(TrainingInterrupted):
        train(SPEC, resumed, checkpointing=CheckpointPolicy(stop=after(3)))
    train(SPEC, resumed, resume=True)
    assert [line["lr"] for line in resumed.read_metrics()] == [line["lr"] for line in uninterrupted.read_metrics()]


@pytest.mark.parametrize("lr", [1e30, 1e38])
def test_a_run_that_diverges_in_its_last_step_leaves_no_weights(tmp_path: Path, lr: float) -> None:
    fields = {"limit": 32, "batch_size": 32, "epochs": 1, "lr": lr, "schedule": {"name": "multistep"}}
    run = RunDirectory(tmp_path / "run")
    with pytest.raises(RunError, match="training diverged"):
        train(train_spec({**fields, "model": {"width": 4}}), run)
    assert not run.model_file.exists()


def test_an_unknown_schema_version_is_reported_before_unknown_keys() -> None:
    with pytest.raises(SpecError, match="a spec of schema 2, kind TrainSpec"):
        from_canonical('{"kind":"TrainSpec","schema":2,"future":1}')


@pytest.mark.parametrize("fields", [{"method": ["mdl"]}, {"seed": 2**70}, {"seed": -(2**63) - 1}])
def test_invalid_fields_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(SpecError, match=f"{next(iter(fields))} = "):
        train_spec(fields)


def test_a_file_is_not_a_run_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(RunError, match=r"cannot read .*spec\.json: Not a directory"):
        RunDirectory(tmp_path / "file").read_spec()


def test_temporary_files_of_other_programs_are_not_removed(tmp_path: Path) -> None:
    others = [tmp_path / "run" / "project" / ".notes.tmp", tmp_path / "run" / ".draft.tmp"]
    others[0].parent.mkdir(parents=True)
    for path in others:
        path.write_text("x")
    with RunDirectory(tmp_path / "run").locked():
        assert all(path.exists() for path in others)


def test_metrics_are_read_up_to_a_damaged_line(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    run.add_metrics({"epoch": 1})
    with run.metrics_file.open("ab") as file:
        file.write(b"\xff\xfe")
    assert run.read_metrics() == [{"epoch": 1}]


def test_metadata_that_is_not_an_object_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    safetensors.torch.save_file({"w": torch.zeros(1)}, path, {"ctrobust": "[]"})
    with pytest.raises(RunError, match="is not a whole safetensors file"):
        read_tensors(path)


@pytest.mark.parametrize(("key", "value"), [("num_classes", 1), ("in_channels", 0)])
def test_metadata_with_impossible_counts_is_refused(tmp_path: Path, key: str, value: int) -> None:
    path, spec = tmp_path / "model.safetensors", ModelSpec(width=8)
    save_weights(
        path,
        build_from_spec(spec, 1, 10),
        spec,
        in_channels=1,
        classes=data.load("digits", "train").classes,
        data="digits",
    )
    tensors, metadata = read_tensors(path)
    write_tensors(path, tensors, {**metadata, key: value})
    with pytest.raises(RunError, match="holds no network that this version can build"):
        load(path)


@pytest.mark.parametrize(
    ("net", "head"),
    [
        (nn.Sequential(nn.Sequential(nn.Flatten(), nn.Linear(784, 32)), nn.Linear(32, 10)), "0.1"),
        (nn.Sequential(nn.Flatten(), nn.Sequential(nn.Linear(784, 784), nn.ReLU()), nn.Linear(784, 10)), "1.0"),
    ],
)
def test_a_network_with_layers_after_the_head_is_refused(net: nn.Module, head: str) -> None:
    with pytest.raises(InputError, match=f"computes more after layer '{head}'"):
        split(net, head, example=X)


def test_a_module_in_eval_mode_stays_in_eval_mode() -> None:
    norm = nn.BatchNorm2d(4).eval()
    net = nn.Sequential(nn.Conv2d(1, 4, 3), norm, nn.Flatten(), nn.Linear(4 * 26 * 26, 10))
    model = split(net, "3", example=X, noise=Dropout())
    modes = {name: part.training for name, part in model.named_modules()}
    assert not modes.pop("body.1")
    assert set(modes.values()) == {True}
