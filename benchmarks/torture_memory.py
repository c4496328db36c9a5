"""The memory of an evaluation does not grow with the number of examples, besides the examples and their outcomes."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from commands import report, run_command

COUNTS = (500, 2500, 10_000)
ALLOWED = 40_000_000  # bytes between the second and the last count, besides the images
SIDE = 28
PROGRAM = (
    "import resource, sys; from ctrobust.cli import main\n"
    "sys.argv[0] = 'ctrobust'\n"
    "try:\n    main()\nexcept SystemExit as done:\n    assert done.code == 0, done.code\n"
    "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
)


def run(seed: int) -> bool:
    with tempfile.TemporaryDirectory() as place:
        folder, peaks = Path(place), []
        images = np.random.default_rng(seed).integers(0, 256, (COUNTS[-1], SIDE, SIDE), np.uint8)
        labels = np.arange(COUNTS[-1]) % 10
        np.savez(folder / "many.npz", images_train=images[:64], labels_train=labels[:64], images_test=images,
                 labels_test=labels)  # fmt: skip
        train = f"train --data npz:{folder / 'many.npz'} --epochs 1 --width 8 --threads 1 --out {folder / 'run'}"
        trained = run_command(train.split())
        assert trained.code == 0, trained.err
        for count in COUNTS:
            words = ["evaluate", str(folder / "run"), "--data", f"npz:{folder / 'many.npz'}", "--limit", str(count)]
            command = [sys.executable, "-c", PROGRAM, *words, "--attack", "pgd:eps=0.01,steps=3", "--threads", "1"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=600)
            assert done.returncode == 0, done.stderr
            peaks.append(int(done.stderr.split()[-1]) * 1024)
    shown = ", ".join(f"{peak / 1e6:.0f} MB for {count:,}" for count, peak in zip(COUNTS, peaks, strict=True))
    return report("evaluation", f"at most {shown}", good=peaks[-1] - peaks[1] < ALLOWED)
