"""One evaluation by one thread, by two threads, and by two workers of one thread each.

    python -m benchmarks.sharding | tee benchmarks/output/sharding.txt

Each is the whole command `ctrobust evaluate`, on networks that are trained first on the embedded digits. The three ways
alternate; a ratio is of the times of one round. "attack" is the time of the attack as the record has it, in which
workers start; "command" is all of it, with the loading of torch and the clean images.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import torch

COMMAND = str(Path(sys.executable).parent / "ctrobust")
ROUNDS = int(os.environ.get("ROUNDS", "3"))

NETWORKS = {
    "mnistnet": "--data digits --recipe fast --eps 0.1 --lr 0.01 --epochs 6",
    "resnet18": "--data digits --model resnet18 --width 16 --recipe fast --eps 0.1 --lr 0.02 --epochs 3",
}
ATTACKS = {
    "mnistnet": ("pgd:eps=0.05,steps=20", "apgd:eps=0.05,steps=100"),
    "resnet18": ("pgd:eps=0.05,steps=20",),
}
IMAGES, CHUNK = 1024, 128
WAYS = {
    "1 thread": "--workers 1 --threads 1",
    "2 threads": "--workers 1 --threads 2",
    "2 workers": "--workers 2",
}


class Times(NamedTuple):
    """Seconds."""

    attack: float
    command: float


def run(words: str, **more: str) -> tuple[str, float]:
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    begun = time.perf_counter()
    done = subprocess.run([COMMAND, *words.split()], env={**environment, **more}, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{words}: {done.stderr}")
    return done.stdout, time.perf_counter() - begun


def measure(network: Path, attack: str, way: str) -> tuple[Times, list[bytes]]:
    """The times of one evaluation, and the bytes of its outcomes."""
    shutil.rmtree(network / "outcomes", ignore_errors=True)
    words = f"evaluate {network} --split train --limit {IMAGES} --chunk {CHUNK} --attack {attack} --json {WAYS[way]}"
    out, seconds = run(words)
    (found,) = json.loads(out)["attacks"]
    return Times(found["seconds"], seconds), [file.read_bytes() for file in sorted(network.glob("outcomes/*.npz"))]


def ratio(times: dict[str, list[Times]], slow: str, fast: str, kind: int) -> str:
    ratios = [a[kind] / b[kind] for a, b in zip(times[slow], times[fast], strict=True)]
    return f"{statistics.median(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}]"


def main() -> None:
    print(
        f"# {IMAGES} images in batches of {CHUNK}, torch {torch.__version__}, {os.cpu_count()} cores, {ROUNDS} rounds"
    )
    print("# seconds: medians; ratios: median [least, greatest] of the rounds")
    with tempfile.TemporaryDirectory() as folder:
        for name, options in NETWORKS.items():
            network = Path(folder) / name
            run(f"train {options} --out {network}")
            for attack in ATTACKS[name]:
                times: dict[str, list[Times]] = {way: [] for way in WAYS}
                for _ in range(ROUNDS):
                    outcomes = {}
                    for way in WAYS:
                        found, outcomes[way] = measure(network, attack, way)
                        times[way].append(found)
                    assert outcomes["2 workers"] == outcomes["1 thread"]
                report(f"{name}, {attack}", times)


def report(title: str, times: dict[str, list[Times]]) -> None:
    print(f"{title} (load average {os.getloadavg()[0]:.1f})")
    for kind, name in enumerate(Times._fields):
        medians = ", ".join(f"{way} {statistics.median(one[kind] for one in times[way]):.1f} s" for way in WAYS)
        print(f"  {name}: {medians}")
        print(f"    2 threads are {ratio(times, '1 thread', '2 threads', kind)} times as fast as 1 thread")
        print(f"    2 workers are {ratio(times, '1 thread', '2 workers', kind)} times as fast as 1 thread")
        print(
            f"    2 workers are {ratio(times, '2 threads', '2 workers', kind)} times as fast as 2 threads", flush=True
        )


if __name__ == "__main__":
    main()
