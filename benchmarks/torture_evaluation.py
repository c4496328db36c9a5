"""Evaluations are killed at random moments and started again; outcomes are those of an undisturbed one."""

import random
import shutil
import signal
import tempfile
import time
from pathlib import Path

from commands import finish, report, run_command, start
from ctrobust.store import RunDirectory

ATTACKS = {
    "pgd": "pgd:eps=0.1,steps=100,restarts=3",
    "square": "square:eps=0.1,queries=2000",
    "autoattack": "autoattack:eps=0.05,queries=300",
}
KILLS = 8
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
TRAIN = "train --limit 480 --epochs 3 --width 16 --batch-size 16 --threads 1 --out"


def outcomes(run: Path) -> list[bytes]:
    """The bytes of every array of the attack, clean outcomes first."""
    found = sorted(RunDirectory(run).evaluations(), key=lambda one: one.attack)
    return [array.tobytes() for one in found for _, array in sorted(one.evaluation.arrays().items())]


def run(seed: int) -> bool:
    good = True
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        trained = run_command([*TRAIN.split(), str(folder / "trained")])
        assert trained.code == 0, trained.err
        for name, attack in ATTACKS.items():
            good &= _attack(folder, name, attack, random.Random(f"{seed} {name}"))
    return good


def _attack(folder: Path, name: str, attack: str, chance: random.Random) -> bool:
    undisturbed, killed = (Path(shutil.copytree(folder / "trained", folder / f"{name}-{one}")) for one in "uk")
    options = ["--attack", attack, "--limit", "96", "--chunk", "32", "--threads", "1"]
    begun = time.monotonic()
    done = run_command(["evaluate", str(undisturbed), *options])
    assert done.code == 0, done.err
    seconds, kills, wrong = time.monotonic() - begun, 0, 0
    for number in range(KILLS):
        process = start(["evaluate", str(killed), *options])
        time.sleep(1 + chance.random() * (seconds * 0.9 - 1))  # a second: until Python is up, a signal just kills
        process.send_signal(SIGNALS[number % len(SIGNALS)])
        done = finish(process)
        finished = done.code == 0 or "\nreport: " in done.out  # Python catches no signal while it shuts down
        kills += not finished
        wrong += not finished and done.code not in (130, -signal.SIGKILL)
    done = run_command(["evaluate", str(killed), *options])
    left = [file.name for file in (killed / "outcomes").iterdir() if file.suffix not in (".npz", ".json", ".lock")]
    same = done.code == 0 and outcomes(killed) == outcomes(undisturbed)
    text = (
        f"{kills} of {KILLS} signals ended it, {'identical' if same else 'DIFFERENT'} outcomes, {len(left)} files left"
    )
    return report(name, text, good=same and not wrong and not left)
