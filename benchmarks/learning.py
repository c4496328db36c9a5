"""What benchmarks/training.py says of learning: whether MDL does what it says, and whether each method's loss falls."""

import concurrent.futures
import json
import multiprocessing
import statistics
from pathlib import Path

import torch

from ctrobust import data, draws, losses
from ctrobust.data import Dataset
from ctrobust.models import load
from ctrobust.regularizers import set_step
from ctrobust.specs import METHODS, TrainSpec, spec_hash, train_spec
from ctrobust.store import RunDirectory
from ctrobust.training import TrainingState, keep_freed_memory, train

OURS = {"dropout": "dropout", "multi-sample dropout": "multi-sample-dropout", "MDL": "mdl"}


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
    return record.results.accuracy, similarity(path, data.load(spec.data, "test", root))


def similarity(path: Path, test: Dataset) -> float:
    """Mean pairwise cosine of the wrong vectors of 4 sub-networks, over a data set."""
    model = load(path).train()
    total = 0.0
    for index in data.epoch_batches(torch.arange(len(test)), 500):
        x, y = data.gather(test, index)
        set_step(model, seed=0, step=0, keys=index, progress=1.0)
        with torch.no_grad():
            total += losses.wrong_similarity(model.sample_logits(x, 4), y, "cosine").sum().item()
    return total / len(test)


def rows(root: Path | None, out: Path, jobs: int, threads: int, limit: int | None) -> None:
    """One epoch of CIFAR-10 for each row of tables 1 and 2: the loss at its beginning and at its end."""
    fields = {"data": "cifar10", "epochs": 1, "lr": 0.05, "limit": limit, "model": {"width": 16}}
    given = {key: value for key, value in fields.items() if value is not None}
    specs = {method: train_spec({**given, "method": method}) for method in METHODS}
    size = f"the first {limit:,}" if limit else "all"
    print(
        f"# CIFAR-10, {size} training images, resnet18 of width 16, 1 epoch, cyclic, peak rate 0.05, batch 128, seed 0"
    )
    print("# mean loss of the first and of the last tenth of the epoch's steps; each method's own loss\n", flush=True)
    context = multiprocessing.get_context("spawn")
    decreased = []
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context) as pool:
        found = pool.map(row, specs.values(), [out] * len(specs), [root] * len(specs), [threads] * len(specs))
        for method, values in zip(specs, found, strict=True):
            tenth = max(1, len(values) // 10)
            first, last = statistics.mean(values[:tenth]), statistics.mean(values[-tenth:])
            decreased.append(last < first)
            print(
                f"{method:28} {first:8.4f} -> {last:8.4f}  {'falls' if decreased[-1] else 'does not fall'}", flush=True
            )
    print(f"\n{sum(decreased)} of {len(decreased)} fall, wanted all")


def row(spec: TrainSpec, out: Path, root: Path | None, threads: int) -> list[float]:
    """The loss of each step; what was done before is read from `out`."""
    file = out / f"row-{spec_hash(spec)}.json"
    if file.exists():
        kept: list[float] = json.loads(file.read_text())
        return kept
    torch.set_num_threads(threads)
    keep_freed_memory()
    run = TrainingState.begin(spec, data.load(spec.data, "train", root).take(spec.limit))
    run.wrapped.train()
    order = draws.permutation(len(run.train), draws.stream(spec.seed, "order", 0))
    values = [float(run.train_batch(index)) / len(index) for index in data.epoch_batches(order, spec.batch_size)]
    out.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(".part")
    unfinished.write_text(json.dumps(values))
    unfinished.rename(file)
    return values
