"""Processes started by torchrun or SLURM train one run together, and only rank 0 prints.

All connections use the loopback interface.
"""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ctrobust.specs import train_spec
from ctrobust.store import RunDirectory
from ctrobust.training import Devices, train

COMMAND = str(Path(sys.executable).parent / "ctrobust")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
FIELDS = {"method": "mdl", "recipe": {"eta": 70}, "limit": 100, "epochs": 1, "batch_size": 16, "model": {"width": 8}}
OPTIONS = [
    "train", "--method", "mdl", "--eta", "70", "--limit", "100", "--epochs", "1", "--batch-size", "16", "--width", "8",
    "--accelerator", "cpu", "--threads", "1", "--devices", "2", "--strategy", "ddp",
]  # fmt: skip
TIMEOUT = 240.0
pytestmark = [pytest.mark.slow, pytest.mark.timeout(2 * TIMEOUT)]


@pytest.fixture(scope="module")
def loss(tmp_path_factory: pytest.TempPathFactory) -> float:
    """The loss of a run with one process."""
    run = RunDirectory(tmp_path_factory.mktemp("one") / "run")
    train(train_spec(FIELDS), run, devices=Devices(accelerator="cpu"))
    (line,) = run.read_metrics()
    return float(line["loss"])


def environment(**more: str) -> dict[str, str]:
    """The environment of this process without the variables of other launchers."""
    launchers = ("SLURM_", "TORCHELASTIC_", "MASTER_")
    names = {"RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK", "WORLD_SIZE"}
    own = {name: value for name, value in os.environ.items() if not name.startswith(launchers) and name not in names}
    return {**own, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", **more}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def check(run: RunDirectory, stdout: str, stderr: str, loss: float) -> None:
    """Two processes trained one run, and one of them printed."""
    assert stdout.startswith(f"{run.path}: digits, 100 training images, 1 epoch in ")
    assert stdout.count("test accuracy ") == 1
    assert stdout.count("ctrobust evaluate ") == 1
    assert stderr.count(f"train {run.path}: epoch 1, loss ") == 1
    (line,) = run.read_metrics()
    assert line["loss"] == pytest.approx(loss, rel=1e-5)
    assert (line["step"], run.read_spec().world_size) == (7, 2)
    assert run.read_record().steps == 7


def test_two_processes_started_by_torchrun(tmp_path: Path, loss: float) -> None:
    run = RunDirectory(tmp_path / "run")
    launcher = [*TORCHRUN, "--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*launcher, COMMAND, *OPTIONS, "--out", str(run.path)],
        env=environment(), capture_output=True, text=True, timeout=TIMEOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    check(run, done.stdout, done.stderr, loss)


def test_two_processes_started_by_slurm(tmp_path: Path, loss: float) -> None:
    """Two tasks on one node, as srun starts them."""
    run = RunDirectory(tmp_path / "run")
    job = {
        "SLURM_JOB_ID": "123456", "SLURM_JOB_NAME": "train", "SLURM_NODELIST": "127.0.0.1", "SLURM_NNODES": "1",
        "SLURM_NTASKS": "2", "SLURM_NTASKS_PER_NODE": "2", "SLURM_NODEID": "0", "MASTER_PORT": str(free_port()),
    }  # fmt: skip
    tasks = [
        subprocess.Popen(
            [COMMAND, *OPTIONS, "--out", str(run.path)],
            env=environment(**job, SLURM_PROCID=str(task), SLURM_LOCALID=str(task)),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for task in range(2)
    ]  # fmt: skip
    try:
        outputs = [task.communicate(timeout=TIMEOUT) for task in tasks]
    finally:
        for task in tasks:
            task.kill()
            task.wait()
    assert [task.returncode for task in tasks] == [0, 0], outputs
    check(run, *outputs[0], loss)
    stdout, stderr = outputs[1]
    assert stdout == ""
    assert str(run.path) not in stderr
