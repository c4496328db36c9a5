"""Real runs: adversarial training on CIFAR-10 and natural training on Fashion-MNIST, attacked and compared.

    python benchmarks/results.py train    --data-root DIR    hours; each run resumes where it was stopped
    python benchmarks/results.py evaluate --data-root DIR    attacks every finished run; resumable
    python benchmarks/results.py collect                     copies what is finished to results/
    python benchmarks/results.py table                       prints the tables of docs/results.md from results/

Runs go to runs/results (--runs), --jobs at a time with one thread each, which uses two cores best.
"""

import argparse
import concurrent.futures
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ctrobust import data, execution
from ctrobust.outcomes import Evaluation, mcnemar
from ctrobust.specs import TrainSpec, train_spec
from ctrobust.store import RunDirectory, RunRecord
from ctrobust.training import keep_freed_memory, train

RESULTS = Path(__file__).parent.parent / "results"

_CIFAR: dict[str, Any] = {"data": "cifar10", "model": {"name": "resnet18", "width": 16}}
_FASHION: dict[str, Any] = {"data": "fashion-mnist", "epochs": 50}

RUNS: dict[str, dict[str, Any]] = {
    "cifar-fast-g0": {**_CIFAR, "epochs": 10, "recipe": {"name": "fast"}},
    "cifar-fast-g2": {**_CIFAR, "epochs": 10, "recipe": {"name": "fast", "gamma": 2.0}},
    **{
        f"cifar-fast-g{gamma}-seed{seed}": {
            **_CIFAR,
            "epochs": 10,
            "seed": seed,
            "recipe": {"name": "fast", "gamma": float(gamma)},
        }
        for seed in (1, 2)
        for gamma in (0, 2)
    },
    "cifar-free-g0": {**_CIFAR, "epochs": 2, "recipe": {"name": "free"}},
    "cifar-free-g1": {**_CIFAR, "epochs": 2, "recipe": {"name": "free", "gamma": 1.0}},
    "cifar-madry-g0": {**_CIFAR, "epochs": 5, "recipe": {"name": "madry"}},
    "cifar-madry-g3": {**_CIFAR, "epochs": 5, "recipe": {"name": "madry", "gamma": 3.0}},
    "cifar-trades-g0": {**_CIFAR, "epochs": 3, "recipe": {"name": "trades"}},
    "cifar-trades-g3": {**_CIFAR, "epochs": 3, "recipe": {"name": "trades", "gamma": 3.0}},
    "fashion-dropout": {**_FASHION, "method": "dropout"},
    "fashion-multi-sample-dropout": {**_FASHION, "method": "multi-sample-dropout"},
    "fashion-mdl": {**_FASHION, "method": "mdl", "recipe": {"eta": 90.0}},
}

WHITE_BOX = ("fgsm", "pgd", "mifgsm", "pgd-sce", "cw-pgd", "s-pgd", "apgd", "s-apgd")
ATTACKS = {f"{name}:eps=8/255": 1000 for name in WHITE_BOX} | {"autoattack:eps=8/255": 200}
"""Attack -> how many of the first test images."""

CHUNK = 250

COLUMNS = ("FGSM", "PGD-20", "MI-FGSM", "PGD-SCE", "PGD-margin", "S-PGD-20", "APGD-CE", "S-APGD", "AutoAttack")

PAIRS = [
    ("cifar-fast-g0", "cifar-fast-g2"),
    ("cifar-fast-g0-seed1", "cifar-fast-g2-seed1"),
    ("cifar-fast-g0-seed2", "cifar-fast-g2-seed2"),
    ("cifar-free-g0", "cifar-free-g1"),
    ("cifar-madry-g0", "cifar-madry-g3"),
    ("cifar-trades-g0", "cifar-trades-g3"),
    ("fashion-dropout", "fashion-mdl"),
    ("fashion-multi-sample-dropout", "fashion-mdl"),
]


def spec_of(name: str) -> TrainSpec:
    return train_spec(RUNS[name])


def train_one(name: str, runs: Path, root: Path | None, threads: int) -> str:
    torch.set_num_threads(threads)
    keep_freed_memory()
    record = train(spec_of(name), RunDirectory(runs / name), data_root=root, resume=True)
    return f"{name}: accuracy {100 * record.results.accuracy:.2f}%"


def evaluate_one(name: str, runs: Path, root: Path | None, threads: int) -> str:
    torch.set_num_threads(threads)
    keep_freed_memory()
    test = data.load(spec_of(name).data, "test", root)
    lines = []
    for text, limit in ATTACKS.items():
        (row,) = execution.evaluate_stored(runs / name, test, execution.expand([text], []), limit=limit, chunk=CHUNK)
        lines.append(f"{name}: {text} {100 * row.evaluation.robust_accuracy:.1f}% of {limit}")
    return "\n".join(lines)


def finished(runs: Path) -> list[str]:
    return [name for name in RUNS if RunDirectory(runs / name).record_file.exists()]


def collect(runs: Path) -> None:
    """Specs, metrics, records, weights and outcomes of what is finished."""
    for name in finished(runs):
        source, target = RunDirectory(runs / name), RESULTS / name
        (target / "outcomes").mkdir(parents=True, exist_ok=True)
        for file in (source.spec_file, source.metrics_file, source.record_file, source.model_file):
            shutil.copy(file, target / file.name)
        for one in source.evaluations():
            for file in (one.file, one.file.with_suffix(".json")):
                shutil.copy(file, target / "outcomes" / file.name)
        print(f"{name}: {sum(file.stat().st_size for file in target.rglob('*') if file.is_file()) / 1e6:.2f} MB")


@dataclass(frozen=True)
class Result:
    record: RunRecord
    metrics: list[dict[str, Any]]
    outcomes: dict[str, Evaluation]

    @classmethod
    def read(cls, name: str) -> "Result | None":
        run = RunDirectory(RESULTS / name)
        if not run.record_file.exists():
            return None
        stored = {(one.attack, one.record.summary.count): one for one in run.evaluations()}
        attacks = {text: str(execution.expand([text], [])[0]) for text in ATTACKS}
        found = {text: stored.get((attacks[text], limit)) for text, limit in ATTACKS.items()}
        outcomes = {text: one.evaluation for text, one in found.items() if one is not None}
        return cls(run.read_record(), run.read_metrics(), outcomes)


def cell(value: float, low: float, high: float) -> str:
    return f"{100 * value:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def table() -> None:
    results = {name: found for name in RUNS if (found := Result.read(name)) is not None}
    for family in ("cifar", "fashion"):
        print(f"| run | natural, 10,000 | {' | '.join(COLUMNS)} |")
        print("|---" * (2 + len(COLUMNS)) + "|")
        for name in (name for name in RUNS if name.startswith(family)):
            if (result := results.get(name)) is None:
                print(f"| {name} | not finished {'| ' * len(COLUMNS)}|")
                continue
            natural = result.record.results
            cells = [cell(natural.accuracy, *natural.accuracy_interval)]
            for text in ATTACKS:
                one = result.outcomes.get(text)
                cells.append(
                    "not run" if one is None else cell(one.robust_accuracy, one.interval.low, one.interval.high)
                )
            print(f"| {name} | {' | '.join(cells)} |")
        print()
    print("| McNemar, first against second | " + " | ".join(COLUMNS) + " |")
    print("|---" * (1 + len(COLUMNS)) + "|")
    for first, second in PAIRS:
        if first in results and second in results:
            cells = []
            for text in ATTACKS:
                one, other = results[first].outcomes.get(text), results[second].outcomes.get(text)
                if one is None or other is None:
                    cells.append("not run")
                    continue
                test = mcnemar(one.robust, other.robust)
                cells.append(f"{test.b} : {test.c}, p {test.p_value:.2g}")
            print(f"| {first}, {second} | {' | '.join(cells)} |")
    print("\n| run | wrong categories below 1/9, of 90,000 | largest p_y among errors |")
    print("|---|---|---|")
    for name, result in results.items():
        threshold = result.record.results.threshold
        print(f"| {name} | {threshold.wrong_below:,} | {threshold.largest_wrong_confidence or 0:.4f} |")
    print("\n| run | accuracy under PGD-5 on a training batch, after each epoch | epochs reported as collapsed |")
    print("|---|---|---|")
    for name, result in results.items():
        if result.record.collapses is not None:
            watched = ", ".join(f"{100 * line['watched_accuracy']:.0f}" for line in result.metrics)
            collapsed = ", ".join(str(one.epoch) for one in result.record.collapses) or "none"
            print(f"| {name} | {watched} | {collapsed} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["train", "evaluate", "collect", "table"])
    parser.add_argument("--only", action="append", choices=list(RUNS), help="this run; repeatable")
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--runs", type=Path, default=Path("runs/results"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    if options.what == "collect":
        collect(options.runs)
    elif options.what == "table":
        table()
    else:
        names = options.only or (list(RUNS) if options.what == "train" else finished(options.runs))
        work = train_one if options.what == "train" else evaluate_one
        with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
            waiting = [pool.submit(work, name, options.runs, options.data_root, options.threads) for name in names]
            for done in concurrent.futures.as_completed(waiting):
                print(done.result(), flush=True)


if __name__ == "__main__":
    main()
