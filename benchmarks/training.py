"""Figures of training: the cost of MDL, the speed of our step, and whether MDL does what it says.

    python benchmarks/training.py speed                      a few minutes, on an idle machine
    python benchmarks/training.py fashion --data-root DIR    nine runs of three epochs on Fashion-MNIST; resumable

Times are ratios inside one run: contenders take turns, the median and the quartiles of the turns' ratios are printed.
Each contender is a process of its own, with the same threads, float32 and batch size.
"""

import argparse
import concurrent.futures
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from ctrobust import data, draws, losses
from ctrobust.data import Dataset
from ctrobust.regularizers import tell
from ctrobust.specs import TrainSpec, train_spec
from ctrobust.store import RunDirectory
from ctrobust.training import Run, keep_freed_memory, load, train

BATCH, STEPS, ROUNDS = 128, 8, 25
OURS = {"dropout": "dropout", "multi-sample dropout": "multi-sample-dropout", "MDL": "mdl"}


def synthetic() -> Dataset:
    """As many images as two hundred batches, of Fashion-MNIST's shape."""
    count = 200 * BATCH
    images = (draws.uniform(torch.arange(count), 1, (1, 28, 28)) * 256).to(torch.uint8)
    labels = draws.words(torch.arange(count), 2, 1)[:, 0].remainder(10)
    classes = tuple("0123456789")
    return Dataset("synthetic", "train", images, labels, classes, mean=(0.286,), std=(0.353,), verified=False)


def our_run(method: str) -> Run:
    run = Run.begin(train_spec({"method": method, "batch_size": BATCH, "epochs": 100}), synthetic())
    run.model.train()
    return run


def our_step(method: str) -> Callable[[], None]:
    """What `ctrobust train` does for a batch, in a process set up as the command sets it up."""
    keep_freed_memory()
    run = our_run(method)
    batches = data.epoch_batches(draws.permutation(len(run.train), 0), BATCH)
    total = torch.zeros((), dtype=torch.float64)

    def step() -> None:
        index = batches[run.progress.step % len(batches)]
        total.add_(run.batch(index) * len(index))

    return step


def plain_step() -> Callable[[], None]:
    from plain_loop import PlainLoop

    made = synthetic()
    return PlainLoop(made.images, made.labels, BATCH).step


def contend(name: str, threads: int) -> None:
    """A contender: makes so many steps for each line it reads, and answers with the seconds they took."""
    torch.set_num_threads(threads)
    step = plain_step() if name == "plain" else our_step(name)
    for _ in range(10):
        step()
    print("ready", flush=True)
    for line in sys.stdin:
        step()  # not timed: the contender before may still hold the caches, and its idle threads a core
        begun = time.perf_counter()
        for _ in range(int(line)):
            step()
        print(time.perf_counter() - begun, flush=True)


class Contender:
    def __init__(self, name: str, threads: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "contend", "--name", name, "--threads", str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.answer()

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def turn(self) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{STEPS}\n")
        self.process.stdin.flush()
        return float(self.answer()) / STEPS

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)


def quartiles(values: list[float]) -> str:
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{median:.3f} [{low:.3f}, {high:.3f}]"


def speed(threads: int) -> None:
    print(f"# mnistnet, batch {BATCH}, float32, {threads} threads, torch {torch.__version__}")
    print(f"# {ROUNDS} rounds; a turn is {STEPS} steps; each contender beside a turn of dropout; median [quartiles]\n")
    names = ["plain", *OURS.values()]
    contenders = {name: Contender(name, threads) for name in names}
    times: dict[str, list[float]] = {name: [] for name in names}
    beside: dict[str, list[float]] = {name: [] for name in names}  # over dropout's turn just before
    for _ in range(ROUNDS):
        for name in (name for name in names if name != "dropout"):
            times["dropout"].append(contenders["dropout"].turn())
            times[name].append(contenders[name].turn())
            beside[name].append(times[name][-1] / times["dropout"][-1])
    for contender in contenders.values():
        contender.end()
    for name in names:
        label = "plain loop" if name == "plain" else f"ctrobust {name}"
        print(f"{label:32} {quartiles([1000 * value for value in times[name]])} ms a step")

    print(f"\n{'multi-sample dropout / dropout':40} {quartiles(beside['multi-sample-dropout'])}  wanted <= 1.06")
    print(f"{'MDL / dropout':40} {quartiles(beside['mdl'])}  wanted <= 1.08 (the paper: 2.13)")
    print(f"{'throughput, ctrobust / plain loop':40} {quartiles(beside['plain'])}  wanted >= 1.15")
    saved = {name: saved_bytes(name) for name in OURS.values()}
    for name in ("multi-sample-dropout", "mdl"):
        ratio = saved[name] / saved["dropout"]
        label = f"bytes saved for backward, {name}"
        print(f"{label:50} {ratio:.3f}  of {saved['dropout'] / 2**20:.2f} MiB, wanted <= 1.15")
    profile("dropout", threads)
    profile("mdl", threads)


def saved_bytes(method: str) -> int:
    """What autograd keeps of a step, each storage once, without the parameters."""
    run = our_run(method)
    own = {parameter.untyped_storage().data_ptr() for parameter in run.model.parameters()}
    kept: dict[int, int] = {}
    alive = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        alive.append(storage)  # or a freed address could be counted as another's
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    x, y = data.gather(run.train, torch.arange(BATCH))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        (loss,) = run.recipe(run.model, x, y, torch.arange(BATCH))
    assert loss.requires_grad
    return sum(kept.values())


PARTS = {
    "convolutions, backward": ("convolution_backward",),
    "convolutions, forward": ("convolution",),
    "linear layers": ("addmm", "mm", "linear"),
    "ReLU, max-pooling": ("threshold_backward", "relu", "clamp_min", "max_pool"),
    "optimizer": ("fused_sgd", "Optimizer"),
}


def profile(method: str, threads: int) -> None:
    """Where the time of our step goes, by the profiler of torch."""
    torch.set_num_threads(threads)
    step = our_step(method)
    for _ in range(5):
        step()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiled:
        for _ in range(10):
            step()
    shares: dict[str, float] = {}
    for event in profiled.key_averages():
        part = next((part for part, keys in PARTS.items() if any(key in event.key for key in keys)), None)
        shares[part or "the rest (masks, loss, batch, autograd)"] = (
            shares.get(part or "the rest (masks, loss, batch, autograd)", 0.0) + event.self_cpu_time_total
        )
    total = sum(shares.values())
    print(f"\nwhere the time of a {method} step goes")
    for part, value in sorted(shares.items(), key=lambda item: -item[1]):
        print(f"  {part:42} {100 * value / total:5.1f}%")


def fashion(root: Path | None, out: Path, jobs: int, threads: int) -> None:
    """Three epochs, three seeds: accuracy, and how alike the wrong categories of the sub-networks are."""
    specs = {
        (method, seed): train_spec({"method": method, "data": "fashion-mnist", "epochs": 3, "lr": 0.05, "seed": seed})
        for seed in range(3)
        for method in OURS.values()
    }
    with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
        found = dict(
            zip(
                specs,
                pool.map(
                    fashion_run,
                    *zip(*[(s, out / f"{m}-{i}", root, threads) for (m, i), s in specs.items()], strict=True),
                ),
                strict=True,
            )
        )
    print("# Fashion-MNIST, mnistnet, 3 epochs, cyclic, peak rate 0.05, batch 128; seeds 0, 1, 2")
    print("# similarity: mean pairwise cosine of the wrong vectors of 4 sub-networks over the 10,000 test images\n")
    means = {}
    for label, method in OURS.items():
        rows = [found[method, seed] for seed in range(3)]
        means[method] = [statistics.mean(column) for column in zip(*rows, strict=True)]
        each = "  ".join(f"{100 * accuracy:.2f}" for accuracy, _ in rows)
        alike = "  ".join(f"{value:.4f}" for _, value in rows)
        print(f"{label:22} accuracy {each}  mean {100 * means[method][0]:.2f}%   similarity {alike}")
    print(f"\ndropout's mean accuracy {100 * means['dropout'][0]:.2f}%, wanted >= 88%")
    print(
        f"similarity, MDL / multi-sample dropout: {means['mdl'][1] / means['multi-sample-dropout'][1]:.3f}, wanted < 1"
    )


def fashion_run(spec: TrainSpec, path: Path, root: Path | None, threads: int) -> tuple[float, float]:
    torch.set_num_threads(threads)
    keep_freed_memory()
    record = train(spec, RunDirectory(path), data_root=root, resume=True)
    return record["results"]["accuracy"], similarity(path, data.load(spec.data, "test", root))


def similarity(path: Path, test: Dataset) -> float:
    """Mean pairwise cosine of the wrong vectors of 4 sub-networks, over a data set."""
    model = load(path).train()
    total = 0.0
    for index in data.epoch_batches(torch.arange(len(test)), 500):
        x, y = data.gather(test, index)
        tell(model, seed=0, step=0, keys=index, progress=1.0)
        with torch.no_grad():
            total += losses.wrong_similarity(model.sample_logits(x, 4), y, "cosine").sum().item()
    return total / len(test)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "fashion", "contend"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--name", help=argparse.SUPPRESS)
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/benchmark"), help="run directories of fashion")
    parser.add_argument("--jobs", type=int, default=2, help="processes of fashion, each with --threads threads")
    options = parser.parse_args()
    if options.what == "speed":
        speed(options.threads)
    elif options.what == "contend":
        contend(options.name, options.threads)
    else:
        fashion(options.data_root, options.out, options.jobs, options.threads)


if __name__ == "__main__":
    main()
