"""The moving average of the weights."""

from pathlib import Path
from typing import Any

import pytest
import torch

from ctrobust import data
from ctrobust.models import build, load
from ctrobust.models.tensor_files import read_tensors
from ctrobust.specs import train_spec
from ctrobust.store import RunDirectory
from ctrobust.training import TrainingState, train
from ctrobust.training.weight_average import WeightAverage

FIELDS: dict[str, Any] = {"limit": 40, "batch_size": 16, "epochs": 2, "lr": 0.1, "model": {"width": 8}}


@pytest.mark.parametrize(("step", "decay"), [(0, 0.1), (10, 11 / 20), (10_000, 0.9)])
def test_the_decay_is_smaller_in_the_first_steps(step: int, decay: float) -> None:
    torch.manual_seed(0)
    model = build("resnet18", 10, 3, 8)
    average = WeightAverage(model, 0.9)
    before = {name: tensor.clone() for name, tensor in average.model.state_dict().items()}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    model.train()(torch.rand(4, 3, 8, 8))  # moves statistics and counts
    average.update(model, step)
    for name, tensor in average.model.state_dict().items():
        now = model.state_dict()[name]
        expected = decay * before[name] + (1 - decay) * now if tensor.is_floating_point() else now
        torch.testing.assert_close(tensor, expected, msg=name)
    assert torch.equal(average.model.normalize.mean, model.normalize.mean)
    assert not average.model.training
    assert not any(parameter.requires_grad for parameter in average.model.parameters())


def test_the_average_is_saved_as_the_model_and_the_trained_weights_in_the_checkpoint(tmp_path: Path) -> None:
    run, plain = RunDirectory(tmp_path / "run"), RunDirectory(tmp_path / "plain")
    record = train(train_spec({**FIELDS, "ema": 0.99}), run)
    train(train_spec(FIELDS), plain)
    assert record.weight_average == "moving average, decay 0.99"
    last, model = read_tensors(run.checkpoint_file)[0], read_tensors(run.model_file)[0]
    for name, tensor in read_tensors(plain.model_file)[0].items():
        assert torch.equal(last[f"model.{name}"], tensor)  # the average does not change training
        assert torch.equal(last[f"average.{name}"], model[name])
    assert not torch.equal(model["head.0.weight"], last["model.head.0.weight"])
    assert torch.equal(load(run.path).state_dict()["head.0.weight"], model["head.0.weight"])


def test_the_average_is_updated_after_every_optimizer_step() -> None:
    spec = train_spec({**FIELDS, "ema": 0.5, "recipe": {"name": "free", "replays": 3}})
    state = TrainingState.begin(spec, data.load("digits").take(40))
    by_hand = WeightAverage(state.model, 0.5)
    seen: list[int] = []
    assert state.average is not None
    update = state.average.update

    def recording_update(model: Any, step: int) -> None:
        seen.append(step)
        update(model, step)
        by_hand.update(model, step)

    state.average.update = recording_update  # type: ignore[method-assign]
    state.wrapped.train()
    state.train_batch(torch.arange(16))
    assert seen == [0, 1, 2]
    for one, two in zip(by_hand.model.parameters(), state.average.model.parameters(), strict=True):
        assert torch.equal(one, two)
