"""Several processes give the results of one, and a run survives the death of one of them."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning_fabric import Fabric

from ctrobust import data
from ctrobust.errors import InputError, RunError
from ctrobust.models.tensor_files import read_tensors
from ctrobust.specs import train_spec
from ctrobust.store import RunDirectory
from ctrobust.training import Devices, TrainingState, train
from ctrobust.training.devices import FabricProcesses, launch
from tests.training.runs import STOPPING, metrics, until_stopped

COMMAND = str(Path(sys.executable).parent / "ctrobust")
FIELDS = ["--limit", "41", "--epochs", "2", "--batch-size", "15", "--width", "8", "--lr", "0.05"]  # those of SMALL
TWO_PROCESSES = ["--devices", "2", "--strategy", "ddp"]
TIMEOUT = 480.0  # seconds that processes may take to start and train on a busy machine
pytestmark = pytest.mark.timeout(3 * TIMEOUT)


def start(out: Path, *options: str, command: Sequence[str] = (COMMAND,), **environment: str) -> subprocess.Popen[str]:
    command = [*command, "train", *FIELDS, *options, "--accelerator", "cpu", "--threads", "1", "--out", str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def run_command(out: Path, *options: str) -> RunDirectory:
    with start(out, *options) as process:
        output = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, output
    return RunDirectory(out)


def run_script(tmp_path: Path, text: str, *arguments: str) -> str:
    """Run a script, which starts itself again for the second process, and return what it prints."""
    file = tmp_path / "script.py"
    file.write_text(text)
    done = subprocess.run(
        [sys.executable, str(file), *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# batches of 15, which two processes share as 8 and 7; the last batch is smaller
SMALL: dict[str, Any] = {"limit": 41, "batch_size": 15, "epochs": 2, "lr": 0.05, "model": {"width": 8}}
ATTACKED = {"gamma": 2.0, "eps": 0.1}
RUNS: dict[str, dict[str, Any]] = {
    "dropout": {**SMALL, "method": "dropout"},
    "mdl": {**SMALL, "method": "mdl", "recipe": {"eta": 70}},
    "online-label-smoothing+mdl": {**SMALL, "method": "online-label-smoothing+mdl", "recipe": {"eta": 70}},
    "dropconnect": {**SMALL, "method": "dropconnect"},
    "fast": {**SMALL, "recipe": {"name": "fast", **ATTACKED}},
    "madry": {**SMALL, "recipe": {"name": "madry", **ATTACKED}},
    "free": {**SMALL, "recipe": {"name": "free", **ATTACKED}},
    "trades": {**SMALL, "recipe": {"name": "trades", **ATTACKED}},
}
TRAIN_ALL = """
import json, sys
from pathlib import Path
import torch
from ctrobust import data
from ctrobust.specs import train_spec
from ctrobust.store import RunDirectory
from ctrobust.training import Devices, TrainingState, train

torch.set_num_threads(1)
for name, fields in json.loads(sys.argv[2]).items():
    spec, run = train_spec({**fields, "world_size": 2}), RunDirectory(Path(sys.argv[1], name))
    train(spec, run, devices=Devices(accelerator="cpu"))

fields = {"batch_size": 16, "world_size": 2, "model": {"name": "resnet18", "width": 8}}
spec = train_spec({**fields, "recipe": {"name": "trades", "steps": 2}})
fabric = Devices(accelerator="cpu").fabric(spec)
fabric.launch()
state = TrainingState.begin(spec, data.load("digits").take(16), fabric)
state.wrapped.train()
(name,) = [name for name in state.model.state_dict() if "stem" in name and name.endswith("running_mean")]
mean = state.model.get_buffer(name)
mean += 1000 * fabric.global_rank
state.train_batch(torch.arange(16))
means = state.processes.gather(mean)
if fabric.is_global_zero:
    Path(sys.argv[1], "statistics.json").write_text(json.dumps([len(means), means.abs().max().item()]))
"""


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All RUNS by two processes, which are started once, because that takes longer than the training steps."""
    path = tmp_path_factory.mktemp("pairs")
    run_script(path, TRAIN_ALL, str(path), json.dumps(RUNS))
    return path


@pytest.mark.parametrize("name", list(RUNS))
def test_two_processes_give_the_losses_and_the_state_of_one(pairs: Path, tmp_path: Path, name: str) -> None:
    one, two = RunDirectory(tmp_path / "one"), RunDirectory(pairs / name)
    train(train_spec(RUNS[name]), one, devices=Devices(accelerator="cpu"))  # mnistnet has no BatchNorm
    for expected, found in zip(one.read_metrics(), two.read_metrics(), strict=True):
        assert found["loss"] == pytest.approx(expected["loss"], rel=1e-5)
    expected_state, found_state = read_tensors(one.checkpoint_file)[0], read_tensors(two.checkpoint_file)[0]
    assert ("recipe.delta" in expected_state) == (name == "free")
    assert expected_state.keys() == found_state.keys()
    # the first gradients of TRADES are so small that rounding decides the signs of a few pixels
    rtol, atol = (1e-3, 1e-4) if name == "trades" else (1e-4, 1e-5)
    for key in expected_state.keys() - {
        "recipe.sums",
        "recipe.counts",
    }:  # online label smoothing has them for each process
        tensor = expected_state[key]
        torch.testing.assert_close(found_state[key], tensor, rtol=rtol, atol=atol, msg=key)
    assert two.read_spec().world_size == 2


def test_all_processes_start_a_batch_with_the_batchnorm_statistics_of_rank_0(pairs: Path) -> None:
    # an attack in eval mode uses them, and a checkpoint saves those of rank 0
    count, largest = json.loads((pairs / "statistics.json").read_text())
    assert count == 16
    assert largest < 10


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


# fabric's observer kills the first process when it finds a dead child: here it checks a thousand times a second
FAST_OBSERVER = """
import runpy
from lightning_fabric.strategies.launchers.subprocess_script import _ChildProcessObserver
_ChildProcessObserver.__init__.__defaults__ = (0.001,)
runpy.run_path({stopping!r}, run_name="__main__")
"""


@pytest.mark.slow
def test_a_run_resumes_after_the_death_of_one_of_its_processes(tmp_path: Path, pairs: Path) -> None:
    options = ["--method", "mdl", "--eta", "70", *TWO_PROCESSES, "--checkpoint-seconds", "0"]
    run, expected, script = RunDirectory(tmp_path / "killed"), RunDirectory(pairs / "mdl"), tmp_path / "script.py"
    script.write_text(FAST_OBSERVER.format(stopping=STOPPING[1]))
    with start(run.path, *options, command=(sys.executable, str(script)), CHECKPOINT="3") as process:
        until_stopped(process)
        (child,) = children(process.pid)
        os.kill(child, signal.SIGKILL)
        process.send_signal(signal.SIGCONT)
        _, stderr = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 5, stderr
    assert "another process of this run died; continue with --resume" in stderr
    assert not run.record_file.exists()
    run_command(run.path, *options, "--resume")
    assert run.model_file.read_bytes() == expected.model_file.read_bytes()
    for line, other in zip(metrics(run), metrics(expected), strict=True):
        # a resumed run sums the losses of its processes in another order
        assert line == {**other, "loss": pytest.approx(other["loss"], rel=1e-9)}


def test_an_error_is_printed_once(tmp_path: Path, pairs: Path) -> None:
    run = Path(shutil.copytree(pairs / "dropout", tmp_path / "run"))
    with start(run, *TWO_PROCESSES) as process:
        stdout, stderr = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, stdout) == (5, "")
    assert stderr == f"error: {run} holds this run already: add --resume to continue it, or choose another --out\n"


class FailingFabric:
    """A fabric of two processes, in one of which something fails."""

    world_size = 2

    def __init__(self, message: str) -> None:
        self.message = message

    def launch(self, *_: object) -> None:
        raise RuntimeError(self.message)


def test_only_a_lost_connection_is_reported_as_the_death_of_another_process() -> None:
    with pytest.raises(RunError, match="another process of this run died; continue with --resume"):
        launch(FailingFabric("[gloo/transport/tcp/pair.cc:553] Connection closed by peer"), print)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        launch(FailingFabric("DefaultCPUAllocator: can't allocate memory"), print)  # type: ignore[arg-type]


def test_a_last_batch_that_cannot_be_shared_is_refused() -> None:
    spec = train_spec({"limit": 33, "batch_size": 16, "world_size": 2})
    with pytest.raises(InputError, match="the last batch has 1 examples for 2 processes"):
        TrainingState.begin(spec, data.load("digits").take(33), Fabric(accelerator="cpu", devices=1))


def test_a_world_size_that_the_nodes_do_not_divide_is_refused() -> None:
    with pytest.raises(InputError, match="3 processes cannot be spread evenly over 2 nodes"):
        Devices(accelerator="cpu", nodes=2).fabric(train_spec({"world_size": 3}))


def test_a_single_process_exchanges_nothing() -> None:
    processes, values = FabricProcesses(Fabric(accelerator="cpu", devices=1)), torch.arange(3)
    assert processes.gather(values) is values
    assert processes.sum(values) is values
    assert processes.first


def test_bf16_trains_with_losses_in_float32(tmp_path: Path) -> None:
    spec = train_spec({"limit": 200, "epochs": 3, "precision": "bf16", "model": {"width": 16}})
    run = RunDirectory(tmp_path / "run")
    record = train(spec, run, devices=Devices(accelerator="cpu"))
    assert record.steps == 39
    assert run.read_metrics()[-1]["loss"] < run.read_metrics()[0]["loss"]
    assert all(tensor.dtype == torch.float32 for tensor in read_tensors(run.model_file)[0].values())
