"""Contenders of benchmarks/training.py: each trains in processes of its own, and they take turns.

    python benchmarks/training_contenders.py SETTING METHOD --ranks N --threads N

is one of them: it makes as many steps as each line that it reads says, and answers with the seconds they took.
"""

import argparse
import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from lightning_fabric import Fabric

import plain_loop
from ctrobust import data, draws
from ctrobust.data import Dataset
from ctrobust.specs import TrainSpec, train_spec
from ctrobust.training import Devices, TrainingState, keep_freed_memory

BATCH = 128
PATIENCE = 600.0


@dataclass(frozen=True)
class Setting:
    """A network and the shape of its images; the images are noise."""

    model: str
    width: int
    shape: tuple[int, int, int]
    augment: str

    def dataset(self) -> Dataset:
        """Fifty batches."""
        keys, channels = torch.arange(50 * BATCH), self.shape[0]
        images = (draws.uniform(keys, 1, self.shape) * 256).to(torch.uint8)
        labels = draws.words(keys, 2, 1)[:, 0].remainder(10)
        mean, std = (0.47,) * channels, (0.25,) * channels
        return Dataset("noise", "train", images, labels, tuple("0123456789"), mean, std, verified=False)

    def spec(self, method: str, processes: int = 1) -> TrainSpec:
        model = {"name": self.model, "width": self.width}
        more = {"augment": self.augment, "batch_size": BATCH, "epochs": 100, "world_size": processes}
        how = {"recipe": ADVERSARIAL[method]} if method in ADVERSARIAL else {"method": method}
        return train_spec({"model": model, **how, **more})

    def plain(self, method: str) -> plain_loop.PlainLoop:
        model = plain_loop.mnistnet() if self.model == "mnistnet" else plain_loop.resnet18(self.width)
        batches = plain_loop.cropped if self.augment == "crop-flip" else plain_loop.loaded
        made = self.dataset()
        mean, std = (torch.tensor(values).view(-1, 1, 1) for values in (made.mean, made.std))
        if method == "plain madry":  # an attack is bounded in [0, 1]: its model normalizes
            images = batches(made.images, made.labels, BATCH, torch.zeros(()), torch.ones(()))
            return plain_loop.PlainMadry(plain_loop.Normalized(model, mean, std), images)
        return plain_loop.PlainLoop(model, batches(made.images, made.labels, BATCH, mean, std))


ADVERSARIAL: dict[str, dict[str, Any]] = {
    "fast": {"name": "fast"},
    "fast, SCE": {"name": "fast", "gamma": 2.0},
    "trades": {"name": "trades"},
    "trades, SKL": {"name": "trades", "gamma": 3.0},
    "madry": {"name": "madry"},
}

SETTINGS = {
    "mnistnet": Setting("mnistnet", 64, (1, 28, 28), "none"),
    "vgg16": Setting("vgg16", 64, (3, 32, 32), "crop-flip"),
    "resnet18": Setting("resnet18", 16, (3, 32, 32), "crop-flip"),
}


@dataclass(frozen=True)
class Entry:
    """Who takes part.

    Attributes:
        label: as it is printed.
        method: of ctrobust, one of ADVERSARIAL, or a plain loop: "plain", "plain madry".
        ranks: processes that share each batch.
        threads: of each.
    """

    label: str
    method: str
    processes: int = 1
    threads: int = 2


class Contender:
    def __init__(self, setting: str, entry: Entry) -> None:
        options = ["--ranks", str(entry.processes), "--threads", str(entry.threads)]
        self.process = subprocess.Popen(
            [sys.executable, __file__, setting, entry.method, *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"a contender ended: {self.process.args!r}")
        return line.strip()

    def turn(self, steps: int) -> float:
        """Seconds a step."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        return float(self.answer()) / steps

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()


@contextlib.contextmanager
def contenders(setting: str, entries: Iterable[Entry]) -> Iterator[dict[str, Contender]]:
    """All of them, each warm; they end with the block."""
    with contextlib.ExitStack() as stack:
        ready = {}
        for entry in entries:  # one after the other: warming up, they would be in each other's way
            ready[entry.label] = Contender(setting, entry)
            stack.callback(ready[entry.label].end)
            ready[entry.label].answer()
        yield ready


def our_run(setting: Setting, method: str, fabric: Fabric | None = None) -> TrainingState:
    run = TrainingState.begin(setting.spec(method, fabric.world_size if fabric else 1), setting.dataset(), fabric)
    run.wrapped.train()
    return run


def our_step(run: TrainingState) -> Callable[[], None]:
    """What `ctrobust train` does for a batch."""
    batches = data.epoch_batches(draws.permutation(len(run.train), 0), BATCH)
    total = torch.zeros((), dtype=torch.float64)

    def step() -> None:
        total.add_(run.train_batch(batches[run.progress.step % len(batches)]))

    return step


def serve(step: Callable[[], None], turns: Iterable[int], *, speak: bool = True) -> None:
    """Warm up, then take turns."""
    for _ in range(3):
        step()
    if speak:
        print("ready", flush=True)
    for steps in turns:
        step()  # not timed: the contender before may still hold the caches, and its idle threads a core
        begun = time.perf_counter()
        for _ in range(steps):
            step()
        if speak:
            print(time.perf_counter() - begun, flush=True)


def asked() -> Iterator[int]:
    return (int(line) for line in sys.stdin)


def shared(fabric: Fabric) -> Iterator[int]:
    """What the first process reads, told to all."""
    mine = asked()
    while steps := fabric.broadcast(next(mine, 0) if fabric.is_global_zero else 0):
        yield steps


def train_together(fabric: Fabric, setting: Setting, method: str, threads: int) -> None:
    torch.set_num_threads(threads)
    run = our_run(setting, method, fabric)
    serve(our_step(run), shared(fabric), speak=fabric.is_global_zero)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("setting", choices=SETTINGS)
    parser.add_argument("method")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    keep_freed_memory()  # as the command does; the plain loops have it as well
    setting = SETTINGS[options.setting]
    if options.method.startswith("plain"):
        serve(setting.plain(options.method).step, asked())
        return
    fabric = Devices(accelerator="cpu").fabric(setting.spec(options.method, options.processes))
    fabric.launch(lambda fabric: train_together(fabric, setting, options.method, options.threads))


if __name__ == "__main__":
    main()
