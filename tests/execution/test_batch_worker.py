"""What a worker does before its first batch: it reads the weights and makes the fused copy."""

import dataclasses
import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch

from ctrobust import data as datasets
from ctrobust.attacks import PGD
from ctrobust.errors import CtrobustError, InputError, RunError
from ctrobust.evaluation import Evaluator, RepeatedMean, StageBatch
from ctrobust.execution.batch_worker import BatchWorker, UserModelCall, WorkerSettings
from ctrobust.models import WeightsFile, user_model
from ctrobust.models.tensor_files import read_tensors, write_tensors
from ctrobust.specs import train_spec
from ctrobust.store import RunDirectory
from ctrobust.training import train
from tests.user_networks import write_class_means

ATTACK = PGD(eps=0.1, steps=10)


@pytest.fixture
def settings(run: Path) -> WorkerSettings:
    weights = WeightsFile.read(run)
    images = datasets.load("digits", "test").images[:8].numpy()
    return WorkerSettings(weights.path, weights.sha256, images, fused=True, threads=1, resume_seconds=20.0)


def batch(**changed: object) -> StageBatch:
    digits = datasets.load("digits", "test")
    index = np.arange(4)
    found = StageBatch(
        ATTACK, 0, True, index, digits.images[:4].numpy(), digits.labels[:4].numpy(), np.eye(10, dtype=np.float32)[:4]
    )
    return dataclasses.replace(found, **changed)  # type: ignore[arg-type]


def test_the_fused_copy_is_that_of_the_coordinator(run: Path, settings: WorkerSettings) -> None:
    evaluator = Evaluator(WeightsFile.read(run).build(), datasets.load("digits", "test"), [ATTACK], limit=8, chunk=8)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    evaluator.clean_logits()
    fused, copies = evaluator.fused, [BatchWorker(settings).runner.fused for _ in range(2)]
    torch.set_num_threads(before)
    assert fused is not None
    for copy in copies:
        assert copy is not None
        assert copy.logit_difference == fused.logit_difference
        for mine, theirs in zip(copy.fused.parameters(), fused.fused.parameters(), strict=True):
            assert torch.equal(mine, theirs)
    assert BatchWorker(dataclasses.replace(settings, fused=False)).runner.fused is None


def test_a_copy_that_is_refused_here_is_an_error(settings: WorkerSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctrobust.attacks.fused.TOLERANCE", -1.0)
    with pytest.raises(CtrobustError, match="fused copy of the network computes otherwise; add --no-fuse"):
        _ = BatchWorker(settings).runner


def test_bytes_are_fetched_where_the_file_is_absent_or_another(settings: WorkerSettings, tmp_path: Path) -> None:
    content = settings.weights.read_bytes()
    elsewhere = dataclasses.replace(settings, weights=tmp_path / "elsewhere" / "model.safetensors")
    fetched: list[int] = []

    def fetch() -> bytes:
        fetched.append(1)
        return content

    expected = BatchWorker(settings, fetch).runner.model.state_dict()
    assert fetched == []
    found = BatchWorker(elsewhere, fetch).runner.model.state_dict()
    assert fetched == [1]
    assert {name: tensor.tolist() for name, tensor in found.items()} == {
        name: tensor.tolist() for name, tensor in expected.items()
    }
    tensors, metadata = read_tensors(settings.weights)
    write_tensors(settings.weights, {name: tensor + 1 for name, tensor in tensors.items()}, metadata)
    assert hashlib.sha256(settings.weights.read_bytes()).hexdigest() != settings.sha256
    with pytest.raises(RunError, match="was changed or removed while it was being evaluated; run the command again"):
        _ = BatchWorker(settings).runner
    assert BatchWorker(settings, fetch).runner.model is not None


def test_errors_are_reported_with_their_kind(settings: WorkerSettings) -> None:
    worker = BatchWorker(settings)
    wrong = worker.run(batch(labels=np.full(4, 11)), lambda _: None, lambda _: None)
    assert wrong.kind == "error"
    assert isinstance(wrong.value, InputError)
    internal = worker.run(batch(stage=7), lambda _: None, lambda _: None)
    assert internal.kind == "error"
    assert isinstance(internal.value, CtrobustError)
    assert str(internal.value).startswith("internal error in a worker: IndexError: ")
    assert "Traceback" in internal.value.__notes__[0]
    assert internal.value.exit_code == 1


def test_a_network_of_the_user_is_built_by_its_factory(settings: WorkerSettings, tmp_path: Path) -> None:
    file, factory = tmp_path / "means.safetensors", "tests.user_networks:linear"
    write_class_means(file)
    network = user_model(factory, file, (0.1,), (0.5,))
    call = UserModelCall(factory, file, (0.1,), (0.5,))
    theirs = dataclasses.replace(settings, weights=Path(), sha256=network.sha256, user_model=call, fused=False)
    x = datasets.to_float(datasets.load("digits", "test").images[:4])
    assert torch.equal(BatchWorker(theirs).runner.model(x), network.model(x))
    averaged = BatchWorker(dataclasses.replace(theirs, repeats=20)).runner.model
    assert isinstance(averaged, RepeatedMean)
    assert averaged.repeats == 20
    report = BatchWorker(dataclasses.replace(theirs, sha256="0" * 64)).run(batch(), print, print)
    assert isinstance(report.value, InputError)
    assert "builds another network in each process" in str(report.value)


def test_a_trained_network_of_the_user_needs_its_factory(settings: WorkerSettings, tmp_path: Path) -> None:
    run, factory = RunDirectory(tmp_path / "own"), "tests.user_networks:small"
    train(train_spec({"limit": 16, "epochs": 1, "model": {"name": factory}}), run, factory=factory)
    weights = WeightsFile.read(run.path, factory)
    theirs = dataclasses.replace(settings, weights=weights.path, sha256=weights.sha256, factory=factory, fused=False)
    x = datasets.to_float(datasets.load("digits", "test").images[:4])
    assert torch.equal(BatchWorker(theirs).runner.model(x), weights.build()(x))
    with pytest.raises(InputError, match=r"--model tests.user_networks:small"):
        _ = BatchWorker(dataclasses.replace(theirs, factory=None)).runner
