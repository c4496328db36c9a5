"""Many processes give what one gives, and survive the death of one."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from lightning_fabric import Fabric

from ctrobust import data
from ctrobust.errors import InputError
from ctrobust.specs import train_spec
from ctrobust.store import RunDirectory, read_tensors
from ctrobust.training import Devices, Run, train
from ctrobust.training.devices import FabricRanks

COMMAND = str(Path(sys.executable).parent / "ctrobust")
FIELDS = ["--limit", "100", "--epochs", "2", "--batch-size", "16", "--width", "8", "--lr", "0.05"]
MANY = ["--devices", "2", "--strategy", "ddp"]


def started(out: Path, *options: str, command: Sequence[str] = (COMMAND,)) -> subprocess.Popen[str]:
    command = [*command, "train", *FIELDS, *options, "--accelerator", "cpu", "--threads", "1", "--out", str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def trained(out: Path, *options: str) -> RunDirectory:
    with started(out, *options) as process:
        said = process.communicate(timeout=240)
    assert process.returncode == 0, said
    return RunDirectory(out)


@pytest.mark.parametrize("method", ["dropout", "mdl", "online-label-smoothing+mdl", "dropconnect"])
def test_two_processes_give_the_losses_and_weights_of_one(tmp_path: Path, method: str) -> None:
    options = ["--method", method, *(["--eta", "70"] if "mdl" in method else [])]
    one, two = trained(tmp_path / "one", *options), trained(tmp_path / "two", *options, *MANY)
    for expected, found in zip(one.read_metrics(), two.read_metrics(), strict=True):
        assert found["loss"] == pytest.approx(expected["loss"], rel=1e-5)
    expected_weights, _ = read_tensors(one.model_file)
    found_weights, _ = read_tensors(two.model_file)
    for name, expected_tensor in expected_weights.items():
        torch.testing.assert_close(found_weights[name], expected_tensor, rtol=1e-4, atol=1e-5)
    assert two.read_spec().world_size == 2


@pytest.mark.parametrize("recipe", ["free", "trades"])
def test_two_processes_attack_as_one_does(tmp_path: Path, recipe: str) -> None:
    one = RunDirectory(tmp_path / "one")  # of mnistnet, which has no BatchNorm
    fields = {"limit": 40, "epochs": 2, "batch_size": 16, "lr": 0.05, "model": {"width": 8}}
    train(train_spec({**fields, "recipe": {"name": recipe, "gamma": 2.0, "eps": 0.1}}), one)
    two = trained(tmp_path / "two", "--recipe", recipe, "--gamma", "2", "--eps", "0.1", "--limit", "40", *MANY)
    for expected, found in zip(one.read_metrics(), two.read_metrics(), strict=True):
        assert found["loss"] == pytest.approx(expected["loss"], rel=1e-5)
    expected_state, found_state = read_tensors(one.checkpoint_file)[0], read_tensors(two.checkpoint_file)[0]
    assert ("recipe.delta" in expected_state) == (recipe == "free")
    assert expected_state.keys() == found_state.keys()
    for name, expected_tensor in expected_state.items():
        # TRADES' first steps follow gradients so small that their signs are rounding's in a few pixels
        torch.testing.assert_close(found_state[name], expected_tensor, rtol=1e-3, atol=1e-4)


STATISTICS = """
import torch
from ctrobust import data
from ctrobust.specs import train_spec
from ctrobust.training import Devices, Run

fields = {"batch_size": 16, "world_size": 2, "model": {"name": "resnet18", "width": 8}}
spec = train_spec({**fields, "recipe": {"name": "trades", "steps": 2}})
fabric = Devices(accelerator="cpu").fabric(spec)
fabric.launch()
run = Run.begin(spec, data.load("digits").take(16), fabric)
run.wrapped.train()
(name,) = [name for name in run.model.state_dict() if "stem" in name and name.endswith("running_mean")]
mean = run.model.get_buffer(name)
mean += 1000 * fabric.global_rank
run.batch(torch.arange(16))
means = run.ranks.gather(mean)
if fabric.is_global_zero:
    print(len(means), means.abs().max().item())
"""


def test_every_batch_begins_with_the_statistics_of_the_first_process(tmp_path: Path) -> None:
    # an attack in eval mode uses them, and those of the first process are the ones saved
    script = tmp_path / "script.py"
    script.write_text(STATISTICS)
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    count, largest = done.stdout.split()
    assert count == "16"
    assert float(largest) < 10


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


# fabric's observer kills the first process when it finds another dead: here it looks a thousand times a second
HASTY = """
from lightning_fabric.strategies.launchers.subprocess_script import _ChildProcessObserver
from ctrobust.cli import main
_ChildProcessObserver.__init__.__defaults__ = (0.001,)
main()
"""


def test_a_run_resumes_after_the_death_of_one_of_its_processes(tmp_path: Path) -> None:
    options = ["--method", "mdl", "--eta", "70", *MANY, "--checkpoint-seconds", "0"]
    expected = trained(tmp_path / "undisturbed", *options)
    run, script = RunDirectory(tmp_path / "killed"), tmp_path / "hasty.py"
    script.write_text(HASTY)
    with started(run.path, *options, command=(sys.executable, str(script))) as process:
        end = time.monotonic() + 120
        while not run.checkpoint_file.exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end
            time.sleep(0.01)
        (other,) = children(process.pid)
        os.kill(other, signal.SIGKILL)
        _, said = process.communicate(timeout=120)
    assert process.returncode == 5, said
    assert "another process of this run is gone; go on with --resume" in said
    assert not run.record_file.exists()
    trained(run.path, *options, "--resume")
    assert run.model_file.read_bytes() == expected.model_file.read_bytes()


def test_a_last_batch_that_cannot_be_shared_is_refused() -> None:
    spec = train_spec({"limit": 33, "batch_size": 16, "world_size": 2})
    with pytest.raises(InputError, match="the last batch has 1 examples for 2 processes"):
        Run.begin(spec, data.load("digits").take(33), Fabric(accelerator="cpu", devices=1))


def test_processes_that_do_not_divide_among_nodes_are_refused() -> None:
    with pytest.raises(InputError, match="3 processes cannot be spread evenly over 2 nodes"):
        Devices(accelerator="cpu", nodes=2).fabric(train_spec({"world_size": 3}))


def test_alone_nothing_is_exchanged() -> None:
    ranks, values = FabricRanks(Fabric(accelerator="cpu", devices=1)), torch.arange(3)
    assert ranks.gather(values) is values
    assert ranks.sum(values) is values
    assert ranks.first


def test_bf16_trains_with_losses_in_float32(tmp_path: Path) -> None:
    spec = train_spec({"limit": 200, "epochs": 3, "precision": "bf16", "model": {"width": 16}})
    run = RunDirectory(tmp_path / "run")
    record = train(spec, run, devices=Devices(accelerator="cpu"))
    assert record["steps"] == 39
    assert run.read_metrics()[-1]["loss"] < run.read_metrics()[0]["loss"]
    assert all(tensor.dtype == torch.float32 for tensor in read_tensors(run.model_file)[0].values())
