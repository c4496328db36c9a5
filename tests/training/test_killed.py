"""Killed processes: files on disk stay complete, and a resumed run has the bits of an uninterrupted one."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ctrobust.models.tensor_files import read_tensors
from ctrobust.specs import train_spec
from ctrobust.store import RunDirectory
from ctrobust.training import CheckpointPolicy, TrainingInterrupted, train
from tests.training.runs import STOPPING, after, metrics, until_stopped

COMMAND = str(Path(sys.executable).parent / "ctrobust")
SPEC = train_spec({"method": "mdl", "limit": 256, "epochs": 3, "batch_size": 16, "model": {"width": 16}})
STEPS = 48
OPTIONS = ["--method", "mdl", "--limit", "256", "--epochs", "3", "--batch-size", "16", "--width", "16"]
TIMEOUT = 240.0  # seconds: a checkpoint waits for the disk, which other processes may keep busy
pytestmark = pytest.mark.timeout(3 * TIMEOUT)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """An uninterrupted run."""
    run = RunDirectory(tmp_path_factory.mktemp("uninterrupted") / "run")
    assert train(SPEC, run).steps == STEPS
    return run


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "run")


def assert_same(run: RunDirectory, expected: RunDirectory) -> None:
    assert run.model_file.read_bytes() == expected.model_file.read_bytes()
    for line, other in zip(metrics(run), metrics(expected), strict=True):
        # two processes sum their losses in another order after a resume
        assert line == {**other, "loss": pytest.approx(other["loss"], rel=1e-9)}


@contextmanager
def start(
    run: RunDirectory, *more: str, seconds: int = 0, before: Callable[[], None] | None = None, **stopping: str
) -> Iterator[subprocess.Popen[str]]:
    """Start the command with a checkpoint after each step, and kill it at the end of the block."""
    checkpointing = ["--checkpoint-seconds", str(seconds), "--out", str(run.path)]
    command = [*(STOPPING if stopping else (COMMAND,)), "train", *OPTIONS, "--threads", "1", *checkpointing, *more]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **stopping}
    if before is not None:  # coverage could not write its files either
        environment = {name: value for name, value in environment.items() if not name.startswith("COV")}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, preexec_fn=before
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for the end of the process; return its exit code and standard error."""
    _, stderr = process.communicate(timeout=TIMEOUT)
    return process.returncode, stderr


def resume(run: RunDirectory) -> None:
    with start(run, "--resume", seconds=60) as process:
        code, stderr = wait(process)
    assert code == 0, stderr


def step(run: RunDirectory) -> int:
    """The step of the last checkpoint, which must be complete; 0 without one."""
    if not run.checkpoint_file.exists():
        return 0
    tensors, metadata = read_tensors(run.checkpoint_file)
    assert all(tensor.isfinite().all() for tensor in tensors.values())
    return int(metadata["progress"]["step"])


def leftovers(run: RunDirectory) -> list[Path]:
    return list(run.checkpoint_file.parent.glob(".last.safetensors.*.tmp"))


def test_a_run_killed_at_a_random_moment_resumes_to_the_same_bits(run: RunDirectory, expected: RunDirectory) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # with which a failure can be repeated
    generator = random.Random(seed)
    last, seconds = generator.randrange(2, STEPS // 2), generator.uniform(1e-5, 0.05)
    with start(run, CHECKPOINT=str(last), SECONDS=str(seconds)) as process:
        assert wait(process)[0] == -signal.SIGALRM
    assert 1 <= step(run) < STEPS
    assert not run.record_file.exists()
    resume(run)
    assert_same(run, expected)


def test_a_run_killed_inside_a_checkpoint_resumes_from_the_one_before(
    run: RunDirectory, expected: RunDirectory
) -> None:
    with start(run, CHECKPOINT="6") as process:
        until_stopped(process)
        process.kill()
        assert wait(process)[0] == -signal.SIGKILL
    assert len(leftovers(run)) == 1
    assert step(run) == 5
    assert not run.record_file.exists()
    train(SPEC, run, resume=True)
    assert leftovers(run) == []
    assert_same(run, expected)


def test_an_interrupted_run_prints_a_message_and_resumes_to_the_same_bits(
    run: RunDirectory, expected: RunDirectory
) -> None:
    with start(run, CHECKPOINT="4") as process:
        until_stopped(process)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGCONT)
        code, stderr = wait(process)
    assert code == 130
    assert f"interrupted: stopped at step {step(run)}; the state is saved in {run.path}" in stderr
    assert "Traceback" not in stderr
    assert 4 <= step(run) < STEPS
    train(SPEC, run, resume=True)
    assert_same(run, expected)


def small_files() -> None:
    """Allow files of at most 100 kB. Python ignores the signal, so a write fails as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


@pytest.mark.parametrize("steps", [0, 20])
def test_a_checkpoint_that_cannot_be_written_leaves_the_one_before(
    run: RunDirectory, expected: RunDirectory, steps: int
) -> None:
    if steps:
        with pytest.raises(TrainingInterrupted):
            train(SPEC, run, checkpointing=CheckpointPolicy(stop=after(steps)))
    before = run.checkpoint_file.read_bytes() if steps else None
    assert before is None or len(before) > 100_000
    with start(run, "--resume", before=small_files) as process:
        code, stderr = wait(process)
    assert code == 5
    left = "the file that was there is intact" if steps else "nothing was written"
    assert stderr.splitlines()[-1] == f"error: cannot write {run.checkpoint_file}: File too large; {left}"
    assert "Traceback" not in stderr
    assert leftovers(run) == []
    assert (run.checkpoint_file.read_bytes() if steps else None) == before
    assert run.checkpoint_file.exists() == bool(steps)
    train(SPEC, run, resume=True)
    assert_same(run, expected)


SMOOTHED: dict[str, Any] = {
    "method": "online-label-smoothing+mdl", "recipe": {"eta": 70.0}, "limit": 128, "epochs": 2, "batch_size": 16,
    "lr": 0.05, "model": {"width": 16}, "world_size": 2,
}  # fmt: skip
SMOOTHED_OPTIONS = [
    "train", "--method", "online-label-smoothing+mdl", "--eta", "70", "--limit", "128", "--epochs", "2", "--batch-size",
    "16", "--width", "16", "--lr", "0.05", "--accelerator", "cpu", "--threads", "1", "--devices", "2", "--strategy",
    "ddp", "--checkpoint-seconds", "0",
]  # fmt: skip
# two processes are started once for all three runs, because that takes longer than the training steps
RESUME_ALL = """
import json, sys
from pathlib import Path
import torch
from ctrobust.specs import train_spec
from ctrobust.store import RunDirectory
from ctrobust.training import Devices, train

torch.set_num_threads(1)
for name in ("uninterrupted", "other", "first"):
    run = RunDirectory(Path(sys.argv[1], name))
    train(train_spec(json.loads(sys.argv[2])), run, resume=True, devices=Devices(accelerator="cpu", strategy="ddp"))
"""


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def kill_one_of_two(run: RunDirectory, which: str) -> None:
    """Train with two processes, and kill one of them in the second epoch, at its third checkpoint of nine."""
    output = run.path.with_suffix(".txt")
    with (
        output.open("w") as file,
        subprocess.Popen(
            [*STOPPING, *SMOOTHED_OPTIONS, "--out", str(run.path)],
            stdout=file, stderr=file, text=True, env={**os.environ, "OMP_NUM_THREADS": "1", "CHECKPOINT": "12"},
        ) as process,
    ):  # fmt: skip
        try:
            until_stopped(process)
            (other,) = map(int, Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())
            os.kill(process.pid if which == "first" else other, signal.SIGKILL)
            process.send_signal(signal.SIGCONT)
            code = process.wait(TIMEOUT)
            end = time.monotonic() + TIMEOUT
            while is_alive(other):
                assert time.monotonic() < end, "the surviving process continues alone"
                time.sleep(0.05)
        finally:
            process.kill()
    # fabric kills a first process that is slow to end
    assert code == -signal.SIGKILL or (code == 5 and which == "other")
    assert code != 5 or "another process of this run died; continue with --resume" in output.read_text()
    assert 8 < step(run) < 16, "not killed within the second epoch"
    assert not run.record_file.exists()


@pytest.fixture(scope="module")
def resumed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of online label smoothing, whose sums over an epoch are spread over two processes of which one is killed."""
    path = tmp_path_factory.mktemp("resumed")
    for which in ("other", "first"):
        kill_one_of_two(RunDirectory(path / which), which)
    script = path / "script.py"
    script.write_text(RESUME_ALL)
    done = subprocess.run(
        [sys.executable, str(script), str(path), json.dumps(SMOOTHED)],
        capture_output=True, text=True, timeout=TIMEOUT, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return path


@pytest.mark.slow
@pytest.mark.parametrize("which", ["other", "first"])
def test_a_run_resumes_to_the_same_bits_after_one_of_two_processes_was_killed(resumed: Path, which: str) -> None:
    run, uninterrupted = RunDirectory(resumed / which), RunDirectory(resumed / "uninterrupted")
    assert uninterrupted.read_record().steps == 16
    assert_same(run, uninterrupted)
