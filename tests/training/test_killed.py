"""A real process, killed: what is on disk stays whole, and resuming ends with the bits of an undisturbed run."""

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
PATIENCE = 240.0  # seconds that anything may take: a checkpoint waits for the disk, which others may keep busy
pytestmark = pytest.mark.timeout(3 * PATIENCE)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """An undisturbed run."""
    run = RunDirectory(tmp_path_factory.mktemp("undisturbed") / "run")
    assert train(SPEC, run)["steps"] == STEPS
    return run


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path / "run")


def assert_same(run: RunDirectory, expected: RunDirectory) -> None:
    assert run.model_file.read_bytes() == expected.model_file.read_bytes()
    for found, line in zip(metrics(run), metrics(expected), strict=True):
        assert found == {**line, "loss": pytest.approx(line["loss"], rel=1e-9)}  # two processes add in another order


@contextmanager
def started(
    run: RunDirectory, *more: str, seconds: int = 0, before: Callable[[], None] | None = None, **stopping: str
) -> Iterator[subprocess.Popen[str]]:
    """The command on this run with a checkpoint at each step; whatever happens, it does not outlive the test."""
    checkpointing = ["--checkpoint-seconds", str(seconds), "--out", str(run.path)]
    command = [*(STOPPING if stopping else (COMMAND,)), "train", *OPTIONS, "--threads", "1", *checkpointing, *more]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **stopping}
    if before is not None:  # where the command can hardly write, neither could its coverage
        environment = {name: value for name, value in environment.items() if not name.startswith("COV")}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, preexec_fn=before
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code and what was said on standard error."""
    _, said = process.communicate(timeout=PATIENCE)
    return process.returncode, said


def resume(run: RunDirectory) -> None:
    with started(run, "--resume", seconds=60) as process:
        code, said = ended(process)
    assert code == 0, said


def step(run: RunDirectory) -> int:
    """The step of the last checkpoint, which must be whole; 0 without one."""
    if not run.checkpoint_file.exists():
        return 0
    tensors, note = read_tensors(run.checkpoint_file)
    assert all(tensor.isfinite().all() for tensor in tensors.values())
    return int(note["progress"]["step"])


def leftovers(run: RunDirectory) -> list[Path]:
    return list(run.checkpoint_file.parent.glob(".last.safetensors.*.tmp"))


def test_killed_at_a_random_moment_it_resumes_to_the_same_bits(run: RunDirectory, expected: RunDirectory) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # to repeat a failure with
    chance = random.Random(seed)
    last, seconds = chance.randrange(2, STEPS // 2), chance.uniform(1e-5, 0.05)
    with started(run, CHECKPOINT=str(last), SECONDS=str(seconds)) as process:
        assert ended(process)[0] == -signal.SIGALRM
    assert 1 <= step(run) < STEPS
    assert not run.record_file.exists()
    resume(run)
    assert_same(run, expected)


def test_killed_inside_a_checkpoint_it_resumes_from_the_one_before(run: RunDirectory, expected: RunDirectory) -> None:
    with started(run, CHECKPOINT="6") as process:
        until_stopped(process)
        process.kill()
        assert ended(process)[0] == -signal.SIGKILL
    assert len(leftovers(run)) == 1
    assert step(run) == 5
    assert not run.record_file.exists()
    resume(run)
    assert leftovers(run) == []
    assert_same(run, expected)


def test_interrupted_it_says_so_and_resumes_to_the_same_bits(run: RunDirectory, expected: RunDirectory) -> None:
    with started(run, CHECKPOINT="4") as process:
        until_stopped(process)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGCONT)
        code, said = ended(process)
    assert code == 130
    assert f"interrupted: stopped at step {step(run)}; the state is saved in {run.path}" in said
    assert "Traceback" not in said
    assert 4 <= step(run) < STEPS
    train(SPEC, run, resume=True)
    assert_same(run, expected)


def small_files() -> None:
    """Files of at most 100 kB: Python ignores the signal, so a write fails as it does on a full disk."""
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
    with started(run, "--resume", before=small_files) as process:
        code, said = ended(process)
    assert code == 5
    left = "what was there before is intact" if steps else "nothing was written"
    assert said.splitlines()[-1] == f"error: cannot write {run.checkpoint_file}: File too large; {left}"
    assert "Traceback" not in said
    assert leftovers(run) == []
    assert (run.checkpoint_file.read_bytes() if steps else None) == before
    assert run.checkpoint_file.exists() == bool(steps)
    train(SPEC, run, resume=True)
    assert_same(run, expected)


SMOOTHED = [
    "train", "--method", "online-label-smoothing+mdl", "--eta", "70", "--limit", "256", "--epochs", "3", "--batch-size",
    "16", "--width", "16", "--lr", "0.05", "--accelerator", "cpu", "--threads", "1", "--devices", "2", "--strategy",
    "ddp",
]  # fmt: skip


@contextmanager
def started_twice(run: RunDirectory, *more: str, **stopping: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Two processes with online label smoothing, whose sums over an epoch are spread over them; where they speak."""
    said = run.path.with_suffix(".txt")
    with (
        said.open("w") as file,
        subprocess.Popen(
            [*(STOPPING if stopping else (COMMAND,)), *SMOOTHED, *more, "--out", str(run.path)],
            stdout=file, stderr=file, text=True, env={**os.environ, "OMP_NUM_THREADS": "1", **stopping},
        ) as process,
    ):  # fmt: skip
        try:
            yield process, said
        finally:
            process.kill()


def finish(run: RunDirectory, *more: str) -> None:
    with started_twice(run, *more) as (process, said):
        assert process.wait(PATIENCE) == 0, said.read_text()


def alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.fixture(scope="module")
def expected_of_two(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    run = RunDirectory(tmp_path_factory.mktemp("undisturbed") / "two")
    finish(run)
    return run


@pytest.mark.parametrize("first", [False, True], ids=["the other", "the first"])
def test_one_of_two_processes_killed_within_an_epoch_of_online_smoothing(
    run: RunDirectory, expected_of_two: RunDirectory, first: bool
) -> None:
    # 17 checkpoints in the first epoch of 16 batches
    with started_twice(run, "--checkpoint-seconds", "0", CHECKPOINT="24") as (process, said):
        until_stopped(process)
        (other,) = (int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split())
        os.kill(process.pid if first else other, signal.SIGKILL)
        process.send_signal(signal.SIGCONT)
        code = process.wait(PATIENCE)
        end = time.monotonic() + PATIENCE
        while alive(other):
            assert time.monotonic() < end, "the survivor goes on alone"
            time.sleep(0.05)
    assert code == -signal.SIGKILL or (code == 5 and not first)  # fabric kills a first process that is slow to end
    assert code != 5 or "another process of this run is gone; go on with --resume" in said.read_text()
    assert step(run) % 16, "killed at an epoch's end, where nothing is spread"
    assert not run.record_file.exists()
    finish(run, "--resume")
    assert_same(run, expected_of_two)
