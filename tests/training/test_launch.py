"""Processes that torchrun or SLURM started: they train one run together, and one of them speaks.

Everything stays on the loopback interface.
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
PATIENCE = 240.0
pytestmark = pytest.mark.timeout(2 * PATIENCE)


@pytest.fixture(scope="module")
def loss(tmp_path_factory: pytest.TempPathFactory) -> float:
    """What one process ends with."""
    run = RunDirectory(tmp_path_factory.mktemp("one") / "run")
    train(train_spec(FIELDS), run, devices=Devices(accelerator="cpu"))
    (line,) = run.read_metrics()
    return float(line["loss"])


def environment(**more: str) -> dict[str, str]:
    """This process's, without what another launcher may have left in it."""
    launchers = ("SLURM_", "TORCHELASTIC_", "MASTER_")
    names = {"RANK", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK", "WORLD_SIZE"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(launchers) and name not in names}
    return {**kept, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", **more}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def check(run: RunDirectory, out: str, err: str, loss: float) -> None:
    """One run of two processes, told once."""
    assert out.startswith(f"{run.path}: digits, 100 training images, 1 epoch in ")
    assert out.count("test accuracy ") == 1
    assert out.count("\n") == 2
    assert err.count(f"train {run.path}: epoch 1, loss ") == 1
    (line,) = run.read_metrics()
    assert line["loss"] == pytest.approx(loss, rel=1e-5)
    assert (line["step"], run.read_spec().world_size) == (7, 2)
    assert run.read_record()["steps"] == 7


def test_torchrun(tmp_path: Path, loss: float) -> None:
    run = RunDirectory(tmp_path / "run")
    launcher = [*TORCHRUN, "--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*launcher, COMMAND, *OPTIONS, "--out", str(run.path)],
        env=environment(), capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    check(run, done.stdout, done.stderr, loss)


def test_slurm(tmp_path: Path, loss: float) -> None:
    """Two tasks of a node, as srun starts them."""
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
        said = [task.communicate(timeout=PATIENCE) for task in tasks]
    finally:
        for task in tasks:
            task.kill()
            task.wait()
    assert [task.returncode for task in tasks] == [0, 0], said
    check(run, *said[0], loss)
    out, err = said[1]
    assert out == ""
    assert str(run.path) not in err
