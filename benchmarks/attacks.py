"""The speed of attacks beside torchattacks, foolbox, ART and pyautoattack, and where our time goes.

    make .peers/.done .peers-benchmark/.done
    python benchmarks/attacks.py [--data-root DIR]     on an idle machine, about 50 minutes
    python benchmarks/attacks.py --rows square --rounds 9

Contenders are processes with the same threads, weights, examples and radius, in eval mode, float32. They take turns;
ratios are of turns of the same round. Every contender's C library keeps freed memory, as `ctrobust evaluate` asks its
own to (see ctrobust.training.keep_freed_memory); --default-allocator leaves it to all as it is.
The networks are trained by this script on the embedded digits, or with --data-root on MNIST and CIFAR-10, and kept.
"""

import argparse
import functools
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

import attack_costs
import attack_subjects
from attack_contenders import ATTACKERS
from contest import Contender, Score, contend, hold, quartiles
from ctrobust.training import keep_freed_memory

HERE = Path(__file__).parent
PEERS = os.pathsep.join(str(HERE.parent / name) for name in (".peers", ".peers-benchmark"))
NOT_THE_SAME = {("autoattack", "torchattacks"): "not AutoAttack: 10 steps of APGD and FAB in place of 100; not counted"}


@dataclass(frozen=True)
class Row:
    """One line of the table: what is attacked how, and by how much the fastest peer must be beaten."""

    title: str
    attack: str
    network: str
    kind: str
    radius: str
    count: int
    budget: int
    rounds: int
    least: float
    aim: float


PGD_ALL = ("PGD-20, nothing dropped", "pgd, all steps")
PGD_ANY = ("PGD-20 evaluation", "pgd")
AUTO = ("AutoAttack standard", "autoattack")
ROWS = {
    "pgd-mnistnet": Row(*PGD_ALL, "mnistnet", "trained", "trained", 128, 20, 9, 1.1, 1.3),
    "pgd-resnet18": Row(*PGD_ALL, "resnet18", "trained", "trained", 128, 20, 5, 1.25, 1.6),
    "evaluation-mnistnet": Row(*PGD_ANY, "mnistnet", "natural", "fatal", 256, 20, 5, 6, 10),
    "evaluation-resnet18": Row(*PGD_ANY, "resnet18", "natural", "fatal", 128, 20, 3, 6, 10),
    "apgd": Row("APGD-CE 100", "apgd-ce", "mnistnet", "trained", "trained", 64, 100, 5, 1.3, 2),
    "square": Row("Square 1000", "square", "resnet18", "trained", "trained", 32, 1000, 3, 1.6, 2.2),
    "autoattack-mnistnet": Row(*AUTO, "mnistnet", "trained", "fatal", 64, 5000, 2, 1.3, 2),
    "autoattack-resnet18": Row(*AUTO, "resnet18", "trained", "fatal", 64, 5000, 2, 1.5, 2),
}
MEASURED = [*ROWS, "costs", "memory"]


def small(row: Row) -> Row:
    """The same in seconds, to see that all works."""
    return Row(**{**vars(row), "count": 8, "budget": min(row.budget, 20), "rounds": 1})


def contender(row: Row, name: str, path: Path, threads: int, keep: bool) -> None:
    """Be this contender of this row."""

    def ready() -> Callable[[], Callable[[], dict[str, float]]]:
        torch.set_num_threads(threads)
        if keep:
            keep_freed_memory()
        subject = attack_subjects.load(path, row.network)
        model, x, y, eps = subject.model, subject.x[: row.count], subject.y[: row.count], getattr(subject, row.radius)
        attack = ATTACKERS[row.attack][name]
        attack(model, x[:2], y[:2], 1.0, 2)  # imports, first calls

        def turn() -> Callable[[], dict[str, float]]:
            found = attack(model, x, y, eps, row.budget)
            return functools.partial(figures, found.detach())

        def figures(found: torch.Tensor) -> dict[str, float]:
            with torch.no_grad():
                active = (model(x).argmax(1) == y) & (model(found).argmax(1) == y)
            return {"robust": active.float().mean().item(), "far": (found - x).abs().max().item() / eps}

        return turn

    contend(ready)


def contest(key: str, row: Row, options: argparse.Namespace) -> str:
    """Hold the contest, print its part of the table, and give the line of the summary."""
    path = subject_path(options, row)
    subject = attack_subjects.load(path, row.network)
    eps, rounds = getattr(subject, row.radius), options.rounds or row.rounds
    width = attack_subjects.NETWORKS[row.network]
    print(
        f"\n## {row.title}, {row.network} width {width} ({row.kind}), {row.count} examples, eps {eps:.4f}", flush=True
    )
    begun = time.perf_counter()
    environment = {"PYTHONPATH": PEERS, "OMP_NUM_THREADS": str(options.threads), "GIT_PYTHON_REFRESH": "quiet"}
    contenders = {
        name: Contender([__file__, *sys.argv[1:], "--contend", key, name], environment)
        for name in ATTACKERS[row.attack]
    }
    scores = hold(contenders, rounds, once=[name for name in contenders if (row.attack, name) in NOT_THE_SAME])
    ours = scores["ctrobust"]
    ratios: dict[str, list[float]] = {}
    for name, score in scores.items():
        print(f"{name:14} {told(score)}", end="")
        if name != "ctrobust" and score.turns and ours.turns:
            ratios[name] = [a / b for a, b in zip(score.column("seconds"), ours.column("seconds"), strict=False)]
            print(f"   {quartiles(ratios[name])} times ours", end="")
        remark = NOT_THE_SAME.get((row.attack, name))
        print(f"   ({remark})" if remark else "")
    for name in sorted({"torchattacks", "foolbox", "art", "pyautoattack"} - set(scores)):
        print(
            f"{name:14} does not have it" if (row.attack, name) != ("autoattack", "art") else f"{name:14} another set"
        )
    print(f"{rounds} rounds, {time.perf_counter() - begun:.0f} s", flush=True)
    counted = {name: ratio for name, ratio in ratios.items() if (row.attack, name) not in NOT_THE_SAME}
    if not counted:
        return f"{row.title:24} {row.network:9} no peer has it, or all failed"
    fastest = min(counted, key=lambda name: sorted(counted[name])[len(counted[name]) // 2])
    return (
        f"{row.title:24} {row.network:9} {quartiles(counted[fastest]):20} times {fastest:13} "
        f"at least {row.least}, aim {row.aim}"
    )


def told(score: Score) -> str:
    """The times of a contender, and how strong it was."""
    if not score.turns:
        return f"failed: {score.failure}"
    robust, far = score.turns[-1]["robust"], score.turns[-1]["far"]
    return f"{quartiles(score.column('seconds')):22} s   robust {100 * robust:5.1f}%   distance {far:.4f} eps"


def subject_path(options: argparse.Namespace, row: Row) -> Path:
    source = "real" if options.data_root else "digits"
    out: Path = options.out
    return out / f"attacked-{row.network}-{row.kind}-{source}{'-small' if options.small else ''}.safetensors"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="*", choices=MEASURED, default=MEASURED)
    parser.add_argument("--rounds", type=int, help="of every row, in place of its own number")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/benchmark"), help="where the networks are kept")
    parser.add_argument("--default-allocator", action="store_true")
    parser.add_argument("--small", action="store_true", help="everything tiny, to see that it works")
    parser.add_argument("--contend", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    rows = {key: small(row) if options.small else row for key, row in ROWS.items()}
    if options.contend:
        key, name = options.contend
        path = subject_path(options, rows[key])
        contender(rows[key], name, path, options.threads, keep=not options.default_allocator)
        return

    torch.set_num_threads(options.threads)
    print(f"# {options.threads} threads, float32, torch {torch.__version__}; median [quartiles] of the rounds")
    memory = "as by default" if options.default_allocator else "freed memory kept, for every contender"
    print(f"# {memory}; networks trained on {'MNIST, CIFAR-10' if options.data_root else 'the embedded digits'}")
    begun = time.perf_counter()
    for row in {(row.network, row.kind): row for row in rows.values()}.values():
        attack_subjects.make(
            subject_path(options, row), row.network,
            adversarial=row.kind == "trained", root=options.data_root,
            epochs=2 if options.small else 8, most=256 if options.small else 5000,
        )  # fmt: skip
    print(f"# networks made, or found, in {time.perf_counter() - begun:.0f} s")
    summary = [contest(key, rows[key], options) for key in options.rows if key in rows]
    if summary:
        print("\n## Summary: the fastest peer's time over ours", *summary, sep="\n")
    if "costs" in options.rows:
        if not options.default_allocator:
            keep_freed_memory()
        subjects = {
            row.network: attack_subjects.load(subject_path(options, row), row.network)
            for row in rows.values()
            if row.kind == "trained"
        }
        attack_costs.report(subjects, count=8 if options.small else 128)
    if "memory" in options.rows:
        attack_costs.memory(8 if options.small else 128)


if __name__ == "__main__":
    main()
