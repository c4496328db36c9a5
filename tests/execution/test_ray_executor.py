"""Jobs in a Ray cluster on this machine."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ctrobust._version import __version__
from ctrobust.errors import InputError
from ctrobust.execution import ExecutionProgress, ExecutorSettings, make_plan, ray_executor, run_locally, run_on_ray
from ctrobust.experiments import experiment
from ctrobust.reporting import render
from ctrobust.specs import EvaluationJob, Job, TrainingJob, train_spec
from ctrobust.store import JobIndex, Store
from tests.execution.worker_processes import WrittenOnce, descendants

COMMAND = Path(sys.executable).with_name("ctrobust")
SPEC = train_spec(
    {"data": "digits", "limit": 64, "epochs": 3, "batch_size": 16, "validation": 16, "model": {"width": 4}}
)
TRAINING = TrainingJob(training=SPEC)
EVALUATIONS = [
    EvaluationJob(training=SPEC, attack="fgsm:eps=0.1", limit=10),
    EvaluationJob(training=SPEC, attack="pgd:eps=0.1,steps=3", limit=10, weights="best"),
]


class KillOnce:
    """Kills one Ray worker while a job of a kind runs, and watches that nothing is written twice."""

    def __init__(self, store: Store, kind: type[Job], after: int = 0) -> None:
        self.kind, self.after, self.killed = kind, after, 0
        self.results = WrittenOnce(store.root)

    def __call__(self, progress: ExecutionProgress) -> None:
        self.results.look()
        if not self.killed and progress.ended >= self.after and any(isinstance(j, self.kind) for j in progress.running):
            running = descendants("ray::RayJobWorker.run")
            if running:
                os.kill(running[0], signal.SIGKILL)
                self.killed = running[0]


def test_without_ray_the_message_has_the_install_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'ctrobust\[ray\]'"):
        run_on_ray([TRAINING], Store(tmp_path))


def results_in(store: Store) -> dict[Path, bytes]:
    """The contents of all weights and outcomes by their paths in a store."""
    files = [*store.root.glob("*/model.safetensors"), *store.root.glob("*/outcomes/*.npz")]
    assert len(files) > len(list(store.runs()))
    return {file.relative_to(store.root): file.read_bytes() for file in files}


@pytest.mark.slow
def test_a_table_is_complete_and_equal_to_the_local_one_although_a_worker_was_killed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    table = experiment("table7", "smoke")
    local, cluster = Store(tmp_path / "local"), Store(tmp_path / "ray")
    jobs = make_plan([table], JobIndex(local)).missing
    assert run_locally(jobs, local).failed == {}
    capfd.readouterr()
    kill = KillOnce(cluster, EvaluationJob, after=10)
    report = run_on_ray(jobs, cluster, options=ExecutorSettings(workers=2), callback=kill)
    assert kill.killed
    assert report.failed == {}
    assert sorted(map(repr, report.done)) == sorted(map(repr, jobs))
    assert render(table, JobIndex(cluster), "csv").encode() == render(table, JobIndex(local), "csv").encode()
    assert results_in(cluster) == results_in(local)  # the values of so small networks are nearly all the same
    assert capfd.readouterr() == ("", "")  # nothing of Ray reaches the terminal
    assert descendants("ray::") == []


@pytest.mark.slow
def test_without_a_shared_store_runs_are_brought_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ray_executor, "write_atomic", lambda *_: None)  # workers do not find the token
    local, cluster = Store(tmp_path / "local"), Store(tmp_path / "ray")
    assert run_locally([TRAINING], local).failed == {}
    kill = KillOnce(cluster, TrainingJob)
    long = TrainingJob(training=SPEC.model_copy(update={"epochs": 40}))
    broken = EvaluationJob(training=SPEC, attack="fgsm:eps=0.1", data="npz:absent.npz")
    jobs: list[Job] = [long, TRAINING, *EVALUATIONS, broken]
    report = run_on_ray(jobs, cluster, options=ExecutorSettings(workers=2), callback=kill)
    assert kill.killed
    assert list(report.failed) == [broken]
    assert JobIndex(cluster).missing(jobs) == [broken]
    for name in ("model.safetensors", "checkpoint/best.safetensors"):
        here, there = (store.directory(SPEC).path / name for store in (local, cluster))
        assert here.read_bytes() == there.read_bytes()
    assert not cluster.directory(SPEC).checkpoint_file.exists()  # it was made on the worker's machine and not needed


@pytest.mark.slow
def test_results_of_a_read_only_store_are_sent_and_new_ones_stored_below_the_root(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ray_executor, "write_atomic", lambda *_: None)
    source = Store(tmp_path / "results")
    assert run_locally([TRAINING], source).failed == {}
    store = Store(tmp_path / "runs", (source.root,))
    report = run_on_ray(EVALUATIONS, store, stored=[TRAINING], options=ExecutorSettings(workers=1))
    assert report.failed == {}
    found = [JobIndex(store).evaluation(job) for job in EVALUATIONS]
    assert all(one is not None and one.file.is_relative_to(store.root) for one in found)
    assert not source.directory(SPEC).outcomes_folder.exists()


@pytest.mark.slow
def test_a_stop_saves_the_running_training(tmp_path: Path) -> None:
    store = Store(tmp_path)
    long = TrainingJob(training=SPEC.model_copy(update={"epochs": 10_000}))
    begun = store.directory(long.training).metrics_file
    report = run_on_ray([long], store, options=ExecutorSettings(workers=1), stop=begun.exists)
    assert (report.done, report.failed) == ([], {})
    assert store.directory(long.training).checkpoint_file.exists()
    assert list(tmp_path.glob(".shared-*")) == []


@pytest.mark.slow
def test_more_cpus_than_a_machine_has_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a worker needs 1 CPUs and 1 GPUs; the cluster's machines have"):
        run_on_ray([TRAINING], Store(tmp_path), options=ExecutorSettings(gpus_per_job=1))


@pytest.fixture
def ray_environment(tmp_path: Path) -> dict[str, str]:
    """A home and an authentication token of its own."""
    own = {"HOME": str(tmp_path), "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    return {**os.environ, **own, "RAY_USAGE_STATS_ENABLED": "0"}


@pytest.fixture
def cluster_without_the_package(tmp_path: Path, ray_environment: dict[str, str]) -> Iterator[str]:
    """A Ray cluster whose workers find a package without content in the place of this one."""
    shadow = tmp_path / "shadow" / "ctrobust"
    shadow.mkdir(parents=True)
    (shadow / "__init__.py").write_text("")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = ["--head", f"--port={port}", "--num-cpus=1", "--include-dashboard=false", "--disable-usage-stats"]
    with tempfile.TemporaryDirectory(prefix="ray") as folder:  # a short name, because the names of sockets are
        head = subprocess.Popen(
            [COMMAND.with_name("ray"), "start", *options, "--block", f"--temp-dir={folder}",
             "--node-ip-address=127.0.0.1"],
            env={**ray_environment, "PYTHONPATH": str(shadow.parent)},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        yield f"127.0.0.1:{port}"
        os.killpg(head.pid, signal.SIGKILL)
        head.wait(timeout=60)


@pytest.mark.slow
def test_a_machine_without_the_package_is_reported(
    cluster_without_the_package: str, ray_environment: dict[str, str], tmp_path: Path
) -> None:
    words = ["reproduce", "table7", "--preset", "smoke", "--executor", "ray", "--address", cluster_without_the_package]
    for _ in range(30):  # until the cluster has started
        done = subprocess.run(
            [COMMAND, *words], cwd=tmp_path, env=ray_environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 2
        if "cannot connect" not in done.stderr:
            break
        time.sleep(1)
    assert f"ctrobust {__version__} is not installed on a machine of the cluster" in done.stderr
    assert done.stdout == ""
