"""Figures of training: the cost of MDL, the speed of our step, and whether the methods do what they say.

On an idle machine, a few minutes each:
    python benchmarks/training.py speed       mnistnet: MDL, multi-sample dropout and the plain loop beside dropout
    python benchmarks/training.py vgg16       VGG16 at full width: MDL beside dropout
    python benchmarks/training.py resnet18    ResNet18 of width 16: the plain loop beside ours
    python benchmarks/training.py ranks       mnistnet: one process of one thread beside two that share its batches
    python benchmarks/training.py fast        ResNet18 of width 16: Fast-AT with SCE beside CE
    python benchmarks/training.py trades      the same: TRADES with SKL beside KL
    python benchmarks/training.py madry       the same: Madry-AT by loss.backward() beside ours
    python benchmarks/training.py augment     crop and flip: whole batches beside a training step and loops over images
Longer, resumable, on any machine:
    python benchmarks/training.py fashion --data-root DIR    nine runs of three epochs on Fashion-MNIST
    python benchmarks/training.py rows --data-root DIR       one epoch on CIFAR-10 for each row of tables 1 and 2

Times are ratios inside one run: contenders take turns, the median and the quartiles of the turns' ratios are printed.
Each contender is a process of its own, with the same threads, allocator setting, float32 and batch size.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import pad

import learning
from ctrobust import data, draws
from ctrobust.data.augment import random_crops
from ctrobust.training import keep_freed_memory
from training_contenders import ADVERSARIAL, BATCH, SETTINGS, Entry, Setting, contenders, our_run, our_step


@dataclass(frozen=True)
class Ratio:
    """A contender's time over the reference's, and what it should be."""

    text: str
    contender: str
    wanted: str


@dataclass(frozen=True)
class Table:
    """Contenders beside a reference, which has a turn before each of theirs."""

    setting: str
    reference: Entry
    others: tuple[Entry, ...]
    ratios: tuple[Ratio, ...]
    steps: int
    rounds: int


def tables(threads: int) -> dict[str, Table]:
    plain = Entry("plain loop", "plain", threads=threads)
    dropout, samples, mdl = (
        Entry(f"ctrobust {method}", method, threads=threads) for method in ("dropout", "multi-sample-dropout", "mdl")
    )
    fast, sce, trades, skl, madry = (Entry(f"ctrobust {name}", name, threads=threads) for name in ADVERSARIAL)
    backward = Entry("Madry-AT by loss.backward()", "plain madry", threads=threads)
    one, two = (
        Entry(f"ctrobust dropout, {processes} x 1 thread", "dropout", processes, threads=1) for processes in (1, 2)
    )
    faster = Ratio("throughput, ctrobust / plain loop", plain.label, ">= 1.15")
    return {
        "speed": Table(
            "mnistnet", dropout, (plain, samples, mdl),
            (
                Ratio("multi-sample dropout / dropout", samples.label, "<= 1.06"),
                Ratio("MDL / dropout", mdl.label, "<= 1.08 (the paper: 2.13)"),
                faster,
            ),
            steps=8, rounds=25,
        ),
        "vgg16": Table(
            "vgg16", dropout, (mdl,), (Ratio("MDL / dropout", mdl.label, "<= 1.05"),), steps=1, rounds=10
        ),
        "resnet18": Table("resnet18", dropout, (plain,), (faster,), steps=4, rounds=25),
        "ranks": Table(
            "mnistnet", two, (one,), (Ratio("images a second, 2 processes / 1", one.label, ">= 1.6"),),
            steps=8, rounds=15,
        ),
        "fast": Table("resnet18", fast, (sce,), (Ratio("SCE / CE", sce.label, "<= 1.03"),), steps=4, rounds=15),
        "trades": Table("resnet18", trades, (skl,), (Ratio("SKL / KL", skl.label, "<= 1.03"),), steps=1, rounds=15),
        "madry": Table(
            "resnet18", madry, (backward,), (Ratio("throughput, ctrobust / plain loop", backward.label, ">= 1.3"),),
            steps=1, rounds=15,
        ),
    }  # fmt: skip


def quartiles(values: list[float]) -> str:
    low, median, high = statistics.quantiles(values * 2 if len(values) == 1 else values, n=4, method="inclusive")
    return f"{median:.3f} [{low:.3f}, {high:.3f}]"


def measure(table: Table, rounds: int) -> None:
    """Let them take turns, and print what each took and the ratios."""
    setting, reference, entries = SETTINGS[table.setting], table.reference, (table.reference, *table.others)
    threads = " and ".join(map(str, sorted({entry.threads for entry in entries})))
    images = "x".join(map(str, setting.shape))
    moved = ", crop and flip" if setting.augment == "crop-flip" else ""
    print(f"# {setting.model} of width {setting.width}, images of {images}{moved}, batch {BATCH}, float32")
    print(f"# threads a process {threads}, torch {torch.__version__}")
    print(
        f"# rounds {rounds}; steps a turn {table.steps}; each beside a turn of {reference.label}; median [quartiles]\n"
    )
    times: dict[str, list[float]] = {entry.label: [] for entry in entries}
    beside: dict[str, list[float]] = {entry.label: [] for entry in table.others}  # over the reference's turn before
    with contenders(table.setting, entries) as ready:
        for _ in range(rounds):
            for entry in table.others:
                times[reference.label].append(ready[reference.label].turn(table.steps))
                times[entry.label].append(ready[entry.label].turn(table.steps))
                beside[entry.label].append(times[entry.label][-1] / times[reference.label][-1])
    for label, values in times.items():
        rate = f"{BATCH / statistics.median(values):,.0f} images a second"
        print(f"{label:36} {quartiles([1000 * value for value in values])} ms a step, {rate}")
    print()
    for ratio in table.ratios:
        print(f"{ratio.text:40} {quartiles(beside[ratio.contender])}  wanted {ratio.wanted}")


def more_of_speed(threads: int) -> None:
    """What a step of mnistnet keeps, and where its time goes."""
    setting = SETTINGS["mnistnet"]
    dropout = saved_bytes(setting, "dropout")
    for method in ("multi-sample-dropout", "mdl"):
        label = f"bytes saved for backward, {method}"
        ratio = saved_bytes(setting, method) / dropout
        print(f"{label:50} {ratio:.3f}  of {dropout / 2**20:.2f} MiB, wanted <= 1.15")
    for method in ("dropout", "mdl"):
        profile(setting, method, threads)


def saved_bytes(setting: Setting, method: str) -> int:
    """What autograd keeps of a step, each storage once, without the parameters."""
    run = our_run(setting, method)
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


def profile(setting: Setting, method: str, threads: int) -> None:
    """Where the time of our step goes, by the profiler of torch."""
    torch.set_num_threads(threads)
    keep_freed_memory()
    step = our_step(our_run(setting, method))
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


def augment(rounds: int) -> None:
    """A batch of CIFAR's shape: one call, by type and memory format, beside a training step and loops over images."""
    torch.set_num_threads(1)
    keep_freed_memory()
    run = our_run(SETTINGS["resnet18"], "dropout")
    x = run.train.images[:BATCH].clone()
    keys, stream = torch.arange(BATCH), draws.stream(0, "augment")

    def one_by_one(draw: Callable[[int], tuple[int, int, bool]]) -> Tensor:
        return torch.stack([crop_flip(image, *draw(number)) for number, image in enumerate(x)])

    def keyed(number: int) -> tuple[int, int, bool]:
        down, right, flip = random_crops(keys[number : number + 1], stream, 4, True)
        return int(down[0]), int(right[0]), bool(flip[0])

    assert torch.equal(one_by_one(keyed), data.augment(x, keys, stream))
    step = "a training step of resnet18, width 16"
    contending: dict[str, tuple[Callable[[], object], int]] = {step: (lambda: run.train_batch(keys), 1)}
    for kind in (torch.uint8, torch.float32):
        for order in (torch.contiguous_format, torch.channels_last):
            batch = x.to(kind).to(memory_format=order)
            label = f"a batch at once, {kind}, {order}".replace("torch.", "")
            contending[label] = (partial(data.augment, batch, keys, stream), 20)
    contending["image by image, torch's draws"] = (lambda: one_by_one(by_torch), 1)
    contending["image by image, keyed draws"] = (lambda: one_by_one(keyed), 1)
    print(f"# pad 4, crop and flip of {BATCH} images of 3x32x32, 1 thread, torch {torch.__version__}")
    print(f"# rounds {rounds}, in each of which all have a turn; median [quartiles]\n")
    times: dict[str, list[float]] = {label: [] for label in contending}
    for _ in range(rounds):
        for label, (call, repeats) in contending.items():
            call()
            begun = time.perf_counter()
            for _ in range(repeats):
                call()
            times[label].append((time.perf_counter() - begun) / repeats)
    for label, values in times.items():
        print(f"{label:52} {quartiles([1000 * value for value in values])} ms a batch")
    print()
    for label in [label for label in times if label.startswith("a batch")]:
        shares = [100 * call / whole for call, whole in zip(times[label], times[step], strict=True)]
        print(f"{label:52} {quartiles(shares)} % of a step  wanted <= 2")


def by_torch(_: int) -> tuple[int, int, bool]:
    """As torchvision's RandomCrop and RandomHorizontalFlip draw."""
    down, right = int(torch.randint(9, (1,)).item()), int(torch.randint(9, (1,)).item())
    return down, right, bool(torch.rand(1) < 0.5)


def crop_flip(image: Tensor, down: int, right: int, flip: bool) -> Tensor:
    padded = pad(image.flip(2) if flip else image, (4,) * 4)
    return padded[:, down : down + image.shape[1], right : right + image.shape[2]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=[*tables(1), "augment", "fashion", "rows"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, help="turns of each contender")
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/benchmark"), help="what fashion and rows resume from")
    parser.add_argument("--jobs", type=int, default=2, help="processes of fashion and rows, each of --threads threads")
    parser.add_argument("--limit", type=int, help="training images of rows")
    options = parser.parse_args()
    known = tables(options.threads)
    if options.what in known:
        measure(known[options.what], options.rounds or known[options.what].rounds)
        if options.what == "speed":
            more_of_speed(options.threads)
    elif options.what == "augment":
        augment(options.rounds or 50)
    elif options.what == "fashion":
        learning.fashion(options.data_root, options.out, options.jobs, options.threads)
    else:
        learning.rows(options.data_root, options.out, options.jobs, options.threads, options.limit)


if __name__ == "__main__":
    main()
