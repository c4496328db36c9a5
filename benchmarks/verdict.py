"""The verdict on masking: what it finds in planted and honest networks, how steadily, and what it costs.

python -m benchmarks.verdict matrix                      tests by planted networks, and ten seeds
python -m benchmarks.verdict matrix --retrain            the same, with a training of each network for every seed
python -m benchmarks.verdict calibration results RUNS    what every test measured on stored verdicts
python -m benchmarks.verdict cost results --data-root D  seconds and passes of each test, on an idle machine
"""

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from tests.evaluation.planted_models import PLANTED

import ctrobust as ct
from ctrobust.execution import evaluation_data, read_weights
from ctrobust.outcomes import MASKING_TESTS, THRESHOLDS, Evidence, Measurement, Verdict, assess_masking
from ctrobust.store import RunDirectory, Store, VerdictRecord, read_verdicts

SEEDS = 10
SHORT = {"none found": ".", "suspicious": "suspicious", "masked": "masked", "not tested": "-"}
RAISED = ("suspicious", "masked")
COST_RUNS = {"mnistnet, Fashion-MNIST": "fashion-dropout", "resnet18 of width 16, CIFAR-10": "cifar-madry-g0"}
COLUMNS = {
    "randomized": "random", "zero gradients": "zero", "one step beats many": "1 step", "unlimited radius": "unlim.",
    "radius does not help": "radius", "more effort helps": "effort", "unfinished ascent": "unfin.",
    "silent success": "silent", "loss decides": "loss", "unstable loss surface": "unst.", "noise": "noise",
    "black box beats white box": "Square", "transfer": "transf", "binarization": "binar.",
}  # fmt: skip
"""Test -> the head of its column."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("matrix", "calibration", "cost"))
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--retrain", action="store_true", help="matrix: train each network anew with every seed")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.part == "matrix":
        matrix(given.seeds, given.workers, given.retrain)
    elif given.part == "calibration":
        calibration(given.folders)
    else:
        cost(given.folders[0], given.data_root)


class Task(NamedTuple):
    """A verdict of the matrix: the network, the folder that keeps it, the seeds of its training and of the attacks."""

    name: str
    folder: Path
    training_seed: int
    seed: int


def planted_verdict(task: Task) -> Verdict:
    """The verdict on a planted network."""
    torch.set_num_threads(1)
    planted = PLANTED[task.name]
    network = planted.build(task.folder, task.training_seed)
    return ct.evaluation.masking(network, ct.data.load("digits", "test"), planted.eps, seed=task.seed)


def matrix(seeds: int, workers: int, retrain: bool) -> None:
    """All tests on each planted network, with seed 0, and the level of the verdict for every seed."""
    found: dict[str, list[Verdict]] = {name: [] for name in PLANTED}
    with tempfile.TemporaryDirectory() as folder, multiprocessing.get_context("spawn").Pool(workers) as pool:
        tasks = [Task(name, Path(folder), seed if retrain else 0, seed) for seed in range(seeds) for name in PLANTED]
        for task, verdict in zip(tasks, pool.imap(planted_verdict, tasks), strict=True):
            found[task.name].append(verdict)
            print(f"seed {task.seed}, {task.name}: {verdict.level}", file=sys.stderr, flush=True)
    if not retrain:
        print("Tests by planted networks: the first 256 test images of digits, seed 0\n")
        print_levels({name: verdicts[0] for name, verdicts in found.items()})
    what = "trainings and draws" if retrain else "draws on the same network"
    print(f"\nThe same verdict in how many of {seeds} {what}, and the median of the seconds of all tests\n")
    for name, verdicts in found.items():
        (level, count), *others = Counter(one.level for one in verdicts).most_common()
        besides = "".join(f", {number} {other}" for other, number in others)
        seconds = sorted(one.seconds for one in verdicts)[seeds // 2]
        raised = Counter(one.test for verdict in verdicts for one in verdict.evidence if one.level in RAISED)
        tests = ", ".join(f"{test} {number}" for test, number in raised.most_common()) or "none"
        print(f"{name:20} {count} {level}{besides}; {seconds:.1f} s; raised by: {tests}")


def print_levels(verdicts: Mapping[str, Verdict]) -> None:
    """One line per test, one column per network."""
    print(" " * 27 + "  ".join(f"{name:>17}" for name in verdicts))
    for number, test in enumerate(MASKING_TESTS):
        levels = [SHORT[one.evidence[number].level] for one in verdicts.values()]
        print(f"{test:27}" + "  ".join(f"{level:>17}" for level in levels))
    print(f"{'verdict':27}" + "  ".join(f"{one.level:>17}" for one in verdicts.values()))
    print(f"{'expected':27}" + "  ".join(f"{PLANTED[name].level:>17}" for name in verdicts))


def compared(one: Evidence) -> float | None:
    """The number that the thresholds of a test are compared with."""
    numbers = {key: value for key, value in one.numbers.items() if isinstance(value, int | float)}
    if one.level == "not tested" or not numbers:
        return None
    if one.test == "one step beats many":
        return numbers["pgd"] - numbers["fgsm"]
    if one.test == "radius does not help":
        rises = [
            numbers[f"{attack}_{larger}"] - numbers[f"{attack}_{smaller}"]
            for attack in ("pgd", "fgsm")
            for smaller, larger in (("half", "eps"), ("eps", "double"))
        ]
        return max(rises)
    if one.test == "more effort helps":
        return numbers["pgd"] - min(numbers["steps"], numbers["starts"])
    if one.test == "loss decides":
        return numbers["ce"] - numbers["worst"]
    keys = ("distance", "share", "accuracy", "change", "missed")
    return next((numbers[key] for key in keys if key in numbers), 0.0)


def records(folders: Sequence[Path]) -> list[tuple[RunDirectory, VerdictRecord]]:
    return [(run, one) for folder in folders for run in Store(folder).runs() for one in read_verdicts(run)]


def calibration(folders: Sequence[Path]) -> None:
    """One line per network: the number of each test, with a star where it is suspicious and two where it is masked."""
    print("Thresholds: the number that is compared, above which it is suspicious, above which masked\n")
    for test, bounds in THRESHOLDS.items():
        low, high = ("-" if bound is None else f"{bound:g}" for bound in (bounds.suspicious, bounds.masked))
        print(f"{test:27}{COLUMNS[test]:8}{low:>8}{high:>8}  {bounds.number}")
    print("\nWhat was measured; * suspicious, ** masked\n")
    print(f"{'network':30}{'eps':>8}{'n':>5}" + "".join(f"{head:>9}" for head in COLUMNS.values()) + "  level")
    for run, record in records(folders):
        verdict = assess_masking(record.read_measurements(), record.verdict.setting)
        cells = []
        for one in verdict.evidence:
            value, stars = compared(one), {"suspicious": "*", "masked": "**"}.get(one.level, "")
            cells.append("-" if value is None else f"{value:.3f}{stars}")
        setting = verdict.setting
        line = f"{run.path.name[:29]:30}{setting.eps:8.4f}{setting.count:5}"
        print(line + "".join(f"{cell:>9}" for cell in cells) + f"  {verdict.level}")


class ProcessorTimes:
    """Processor seconds of each test, which a busy machine does not inflate as it does wall-clock seconds."""

    def __init__(self) -> None:
        self.last, self.seconds = time.process_time(), dict[str, float]()

    def __call__(self, verdict: Verdict, measured: Mapping[str, Measurement]) -> None:
        del verdict
        now = time.process_time()
        self.seconds[list(measured)[-1]], self.last = now - self.last, now


def cost(results: Path, root: Path | None) -> None:
    """Seconds and passes of each test on the two networks."""
    for title, name in COST_RUNS.items():
        weights = read_weights(results / name)
        data = evaluation_data(weights, None, root)
        cpu = ProcessorTimes()
        verdict = ct.evaluation.masking(weights.build(), data, 8 / 255, on_measured=cpu)
        print(f"\n{title} ({name}), 256 images, eps 8/255, one thread; wall-clock and processor seconds\n")
        print(f"{'test':27}{'seconds':>9}{'processor':>10}{'forward':>10}{'backward':>10}")
        for one in verdict.evidence:
            used = cpu.seconds.get(one.test, 0.0)
            print(f"{one.test:27}{one.seconds:9.2f}{used:10.2f}{one.forwards:10,}{one.backwards:10,}")
        forwards, backwards = (sum(getattr(one, key) for one in verdict.evidence) for key in ("forwards", "backwards"))
        print(f"{'all':27}{verdict.seconds:9.2f}{sum(cpu.seconds.values()):10.2f}{forwards:10,}{backwards:10,}")


if __name__ == "__main__":
    main()
