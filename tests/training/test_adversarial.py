"""Adversarial recipes in the training loop: steps, learning rates, resuming."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim.optimizer import register_optimizer_step_pre_hook

from ctrobust import data, draws
from ctrobust.models.tensor_files import read_tensors
from ctrobust.specs import TrainSpec, train_spec
from ctrobust.store import RunDirectory
from ctrobust.training import CheckpointPolicy, TrainingInterrupted, TrainingState, train
from tests.training.runs import STOPPING, after, metrics, until_stopped

# 3 batches per epoch; the last is smaller
FIELDS: dict[str, Any] = {"limit": 40, "batch_size": 16, "epochs": 2, "lr": 0.05, "model": {"width": 8}}


def spec_of(recipe: str, **more: Any) -> TrainSpec:
    steps = {"steps": 3} if recipe in ("madry", "trades") else {}
    return train_spec({**FIELDS, "recipe": {"name": recipe, "gamma": 2.0, "eps": 0.1, **steps}, **more})


@pytest.mark.parametrize(
    ("recipe", "model"), [("fast", "resnet18"), ("madry", "mnistnet"), ("free", "mnistnet"), ("trades", "mnistnet")]
)
def test_a_run_stopped_after_every_batch_resumes_to_the_same_bits(tmp_path: Path, recipe: str, model: str) -> None:
    network = {"name": model, "width": 8}
    spec = spec_of(recipe, model=network, augment="crop-flip", ema=0.9, validation=4, stop_on_collapse=True)
    uninterrupted, resumed = RunDirectory(tmp_path / "uninterrupted"), RunDirectory(tmp_path / "resumed")
    train(spec, uninterrupted)
    for _ in range(6):
        with pytest.raises(TrainingInterrupted):
            train(spec, resumed, resume=True, checkpointing=CheckpointPolicy(stop=after(1)))
    train(spec, resumed, resume=True)
    assert resumed.model_file.read_bytes() == uninterrupted.model_file.read_bytes()
    assert resumed.best_file.read_bytes() == uninterrupted.best_file.read_bytes()
    one, two = (read_tensors(run.checkpoint_file)[0] for run in (uninterrupted, resumed))
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert ("recipe.delta" in one) == (recipe == "free")
    assert metrics(resumed) == metrics(uninterrupted)


def test_replays_count_as_steps_of_the_schedule(tmp_path: Path) -> None:
    spec, run, rates = spec_of("free"), RunDirectory(tmp_path / "run"), list[float]()
    hook = register_optimizer_step_pre_hook(lambda optimizer, *_: rates.append(optimizer.param_groups[0]["lr"]))
    try:
        record = train(spec, run)
    finally:
        hook.remove()
    assert record.steps == 2 * 3 * 8
    first, second = run.read_metrics()
    assert (first["step"], second["step"]) == (24, 48)
    assert first["lr"] == pytest.approx(0.05 * 2 * 23 / 48)
    assert second["lr"] == pytest.approx(0.05 * 2 / 48)
    assert rates == pytest.approx([0.05 * 2 * min(step, 48 - step) / 48 for step in range(48)])


@pytest.mark.parametrize(
    ("schedule", "rates"), [("cyclic", [0.0, 0.05, 0.1, 0.15]), ("multistep", [2e-4] * 2 + [0.2] * 2)]
)
def test_without_gamma_a_run_is_bit_identical_to_plain_fast_adversarial_training(
    schedule: str, rates: list[float]
) -> None:
    spec = train_spec(
        {
            "data": "digits",
            "limit": 32,
            "batch_size": 16,
            "epochs": 4 if schedule == "cyclic" else 10,
            "lr": 0.2,
            "seed": 3,
            "augment": "crop-flip",
            "model": {"width": 8},
            "schedule": {"name": schedule},
            "recipe": {"name": "fast"},
        }
    )
    train_set = data.load("digits").take(32)
    state, plain = TrainingState.begin(spec, train_set), TrainingState.begin(spec, train_set)
    model = plain.model.train()
    state.wrapped.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9, weight_decay=5e-4, fused=True)
    for step, rate in enumerate(rates):
        epoch, batch = divmod(step, 2)
        state.progress.epoch = epoch
        order = draws.permutation(32, draws.stream(3, "order", epoch))
        assert torch.equal(state.order(), order)
        index = order[16 * batch :][:16]
        state.train_batch(index)

        images = data.augment(train_set.images[index], index, draws.stream(3, "augment", step))
        x, y = data.to_float(images), train_set.labels[index]
        noise = draws.uniform(index, draws.stream(3, "start", step), (1, 28, 28))
        eps = 8 / 255
        start = torch.clamp(x + (noise * (2 * eps) - eps), 0, 1).requires_grad_()
        cross_entropy(model(start), y, reduction="sum").backward()
        assert start.grad is not None
        adv = start.detach() + 10 / 255 * torch.sign(start.grad)
        adv = torch.clamp(torch.max(torch.min(adv, x + eps), x - eps), 0, 1)
        optimizer.param_groups[0]["lr"] = state.rate(step)
        assert state.rate(step) == pytest.approx(rate)
        optimizer.zero_grad()
        cross_entropy(model(adv), y).backward()
        optimizer.step()
    for name, tensor in state.model.state_dict().items():
        assert torch.equal(tensor, model.state_dict()[name]), name


@pytest.mark.parametrize(("precision", "dtype"), [("bf16", torch.bfloat16), ("fp32", torch.float32)])
@pytest.mark.parametrize(
    ("recipe", "forwards"),
    [
        ({"name": "natural"}, 1),
        ({"name": "natural", "samples": 2}, 1),
        ({"name": "fast"}, 2),
        ({"name": "madry", "steps": 3}, 4),
        ({"name": "free"}, 1),
        ({"name": "trades", "steps": 3}, 6),
    ],
)
def test_attack_and_descent_run_in_the_spec_precision_and_losses_in_float32(
    precision: str, dtype: torch.dtype, recipe: dict[str, Any], forwards: int
) -> None:
    spec = train_spec({**FIELDS, "precision": precision, "recipe": recipe})
    state, seen = TrainingState.begin(spec, data.load("digits").take(16)), list[torch.dtype]()
    layers = [module for module in state.model.modules() if isinstance(module, nn.Conv2d | nn.Linear)]
    for layer in layers:
        layer.register_forward_hook(lambda _layer, _given, out: seen.append(out.dtype))
    index = torch.arange(16)
    loss = next(state.recipe(state.wrapped, *state.images(index, 0), index))
    assert seen == [dtype] * forwards * len(layers)
    assert loss.dtype == torch.float32


def test_a_run_killed_inside_an_epoch_resumes_to_the_same_bits(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    options = [
        "train", "--recipe", "free", "--gamma", "2", "--eps", "0.1", "--limit", "40", "--batch-size", "16", "--epochs",
        "2", "--lr", "0.05", "--width", "8", "--threads", "1", "--checkpoint-seconds", "0", "--out", str(run.path),
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CHECKPOINT": "3"}
    with subprocess.Popen(
        [*STOPPING, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        until_stopped(process)
        process.kill()
    assert read_tensors(run.checkpoint_file)[1]["progress"]["step"] == 16
    assert not run.record_file.exists()
    train(spec_of("free"), run, resume=True)
    uninterrupted = RunDirectory(tmp_path / "uninterrupted")
    train(spec_of("free"), uninterrupted)
    assert run.model_file.read_bytes() == uninterrupted.model_file.read_bytes()
    assert metrics(run) == metrics(uninterrupted)
