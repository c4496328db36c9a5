"""Training of networks that a factory of the user builds."""

from pathlib import Path

import pytest
import torch

from ctrobust.errors import InputError
from ctrobust.specs import train_spec
from ctrobust.store import RunDirectory
from ctrobust.training import CheckpointPolicy, TrainingInterrupted, train
from tests.training.runs import after, metrics

FACTORY = "tests.user_networks:small"
SPEC = train_spec({"model": {"name": FACTORY}, "limit": 64, "epochs": 2, "batch_size": 16})


def test_dropout_of_the_network_draws_the_same_after_a_resumption(tmp_path: Path) -> None:
    whole, stopped = RunDirectory(tmp_path / "whole"), RunDirectory(tmp_path / "stopped")
    state = torch.random.get_rng_state()
    train(SPEC, whole, factory=FACTORY)
    assert torch.equal(torch.random.get_rng_state(), state)
    with pytest.raises(TrainingInterrupted):
        train(SPEC, stopped, factory=FACTORY, checkpointing=CheckpointPolicy(stop=after(3)))
    torch.manual_seed(5)  # another process has another state
    train(SPEC, stopped, factory=FACTORY, resume=True)
    assert stopped.model_file.read_bytes() == whole.model_file.read_bytes()
    assert metrics(stopped) == metrics(whole)


def test_the_factory_is_not_taken_from_the_spec(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    with pytest.raises(InputError, match="code of your own is run only where you name it"):
        train(SPEC, run)
    assert not run.path.exists()


def test_seeds_draw_other_initial_weights(tmp_path: Path) -> None:
    runs = [RunDirectory(tmp_path / str(seed)) for seed in range(2)]
    for seed, run in enumerate(runs):
        train(SPEC.model_copy(update={"seed": seed, "epochs": 1}), run, factory=FACTORY)
    assert runs[0].model_file.read_bytes() != runs[1].model_file.read_bytes()
