"""Checkpoints are damaged, and runs are killed at every step of writing them; the last bits must stay the same.

A bit of the last checkpoint is changed at a random place after a random number of batches, in every other case a bit of
its tensors. Then a run is killed (SIGKILL) before its first, second, ... call of a function that changes the disk,
until it reaches its end, and is resumed each time.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from ctrobust.specs import TrainSpec, train_spec
from ctrobust.store import RunDirectory
from ctrobust.training import CheckpointPolicy, TrainingInterrupted, train

FIELDS: dict[str, Any] = {"limit": 64, "batch_size": 16, "epochs": 3, "lr": 0.05, "model": {"width": 8}}
RUNS: dict[str, TrainSpec] = {
    "mdl": train_spec({**FIELDS, "method": "mdl"}),
    "free, average, best": train_spec(
        {**FIELDS, "recipe": {"name": "free", "eps": 0.1, "gamma": 2.0, "replays": 2}, "limit": 80, "validation": 16,
         "ema": 0.9}
    ),
}  # fmt: skip
BATCHES = 12
WRITES = ("fsync", "link", "mkdir", "replace", "rename", "unlink", "rmdir")
EVERY_BATCH = CheckpointPolicy(seconds=0.0)


def weights(run: RunDirectory) -> list[bytes]:
    """The last weights and, where images were held out, the best; and the metrics without times."""
    lines = [str({key: line[key] for key in line if "seconds" not in key}) for line in run.read_metrics()]
    files = [file.read_bytes() for file in (run.model_file, run.best_file) if file.exists()]
    return [*files, *(line.encode() for line in lines)]


def stop_after(batches: int) -> Callable[[], bool]:
    answers: Iterator[bool] = iter([False] * (batches - 1) + [True])
    return lambda: next(answers, True)


def change_bit(path: Path, chance: random.Random, *, in_tensors: bool) -> None:
    content = bytearray(path.read_bytes())
    first = 8 + int.from_bytes(content[:8], "little") if in_tensors else 0
    content[chance.randrange(first, len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def damage(folder: Path, name: str, count: int, chance: random.Random) -> bool:
    """Change a bit of the last checkpoint of so many runs; whether each was noticed and ended with the same bits."""
    spec, expected = RUNS[name], RunDirectory(folder / "undisturbed")
    train(spec, expected)
    noticed = same = 0
    for number in range(count):
        run = RunDirectory(folder / str(number))
        policy = CheckpointPolicy(seconds=0.0, stop=stop_after(chance.randrange(2, BATCHES)))
        try:
            train(spec, run, checkpointing=policy)
        except TrainingInterrupted:
            change_bit(run.checkpoint_file, chance, in_tensors=number % 2 == 0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            train(spec, run, resume=True)
        noticed += any("the run continues from the checkpoint before" in str(one.message) for one in caught)
        same += weights(run) == weights(expected)
    print(f"  {name:22}{count} changed bits: {noticed} noticed, {same} runs with identical bytes", flush=True)
    return noticed == same == count


def killed_before(call: int, spec: TrainSpec, run: RunDirectory) -> bool:
    """Train in a process that is killed before such a call to change the disk; False if it ended before."""
    child = os.fork()
    if child == 0:
        remaining = call

        def counted(function: Callable[..., Any]) -> Callable[..., Any]:
            def write(*args: Any, **options: Any) -> Any:
                nonlocal remaining
                remaining -= 1
                if remaining == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return function(*args, **options)

            return write

        for name in WRITES:
            setattr(os, name, counted(getattr(os, name)))
        warnings.simplefilter("ignore")  # a run killed before its first checkpoint starts again
        try:
            train(spec, run, resume=True, checkpointing=EVERY_BATCH)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise RuntimeError(f"the run ended with an error when it was to be killed before call {call}")
    return os.WIFSIGNALED(status)


def kill(folder: Path, name: str, stride: int) -> bool:
    """Kill runs before every `stride`-th call to change the disk; whether each ends with the same bits."""
    spec, expected = RUNS[name], RunDirectory(folder / "undisturbed")
    train(spec, expected)
    kills = same = 0
    call = 1
    while killed_before(call, spec, run := RunDirectory(folder / f"killed-{call}")):
        kills, call = kills + 1, call + stride
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            train(spec, run, resume=True, checkpointing=EVERY_BATCH)
        same += weights(run) == weights(expected) and not list(run.path.rglob("*.tmp"))
    print(f"  {name:22}{kills} kills between calls that change the disk: {same} with identical bytes", flush=True)
    return kills == same > 0


def run(seed: int, bits: int = 60, stride: int = 1) -> bool:
    """Damage and kill every run; whether all ended with the same bits."""
    torch.set_num_threads(1)
    results = []
    for name in RUNS:
        with tempfile.TemporaryDirectory() as folder:
            results.append(damage(Path(folder), name, bits, random.Random(f"{seed} {name}")))
        with tempfile.TemporaryDirectory() as folder:
            results.append(kill(Path(folder), name, stride))
    return all(results)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bits", type=int, default=60, help="changed bits per run")
    parser.add_argument("--stride", type=int, default=1, help="kill before every N-th call only")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    sys.exit(0 if run(options.seed, options.bits, options.stride) else 1)


if __name__ == "__main__":
    main()
