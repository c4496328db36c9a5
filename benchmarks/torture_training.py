"""Training is ended again and again by every recipe and resumed; the last bits are those of an undisturbed run.

One of three is a kill at a random moment, at times while the process starts. One comes inside the writing of a
checkpoint: the process is stopped when the temporary file is seen, and killed if the file is still there. One is a
SIGTERM or SIGINT, after which the process saves its state and exits.
"""

import os
import random
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from commands import COMMAND, report

NATURAL = ("dropout", "multi-sample-dropout", "mdl", "mdl-pcc", "dropconnect")
WITH = "--eps 0.1 --gamma 2"
RUNS = {method: f"--method {method} --limit 480" for method in NATURAL} | {
    "fast, average, best": f"--recipe fast {WITH} --limit 580 --validation 100 --ema 0.9 --stop-on-collapse",
    "madry": f"--recipe madry {WITH} --limit 480",
    "free": f"--recipe free {WITH} --limit 480",
    "trades": f"--recipe trades {WITH} --limit 480",
}
OPTIONS = "--epochs 4 --batch-size 16 --width 16 --threads 1 --checkpoint-seconds 0"
BATCHES = 120
INTERRUPTIONS = 6
PATIENCE = 300.0


def start(out: Path, name: str) -> subprocess.Popen[bytes]:
    command = [COMMAND, "train", *RUNS[name].split(), *OPTIONS.split(), "--out", str(out), "--resume"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)


def finish(process: subprocess.Popen[bytes]) -> None:
    _, said = process.communicate(timeout=PATIENCE)
    if process.returncode:
        raise RuntimeError(f"exit code {process.returncode}: {said.decode(errors='replace')}")


def changed(out: Path) -> int:
    checkpoint = out / "checkpoint" / "last.safetensors"
    return checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0


def weights(out: Path) -> list[bytes]:
    """The last ones and, where images were held out, the best."""
    files = (out / "model.safetensors", out / "checkpoint" / "best.safetensors")
    return [file.read_bytes() for file in files if file.exists()]


def undisturbed(out: Path, name: str) -> tuple[list[bytes], float]:
    """The weights, and the seconds until the first checkpoint."""
    begun = time.monotonic()
    process = start(out, name)
    while not changed(out) and process.poll() is None:
        time.sleep(0.01)
    startup = time.monotonic() - begun
    finish(process)
    return weights(out), startup


def leftovers(out: Path) -> list[Path]:
    return list((out / "checkpoint").glob(".last.safetensors.*.tmp"))


def end(
    process: subprocess.Popen[bytes], out: Path, writes: int, *, by: signal.Signals, inside: bool, pause: float
) -> bool:
    """End it after so many checkpoints of its own, inside the next or some `pause` later; False if it ended before."""
    last, end = changed(out), time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < end:
        if (now := changed(out)) != last:
            last, writes = now, writes - 1
        if writes > 0:
            time.sleep(0.002)
        elif not inside:
            time.sleep(pause)
            process.send_signal(by)
            break
        elif leftovers(out):
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            if leftovers(out):
                process.kill()
                break
            process.send_signal(signal.SIGCONT)
    _, said = process.communicate(timeout=PATIENCE)
    if process.returncode not in (0, 130, -signal.SIGKILL, -signal.SIGTERM):
        raise RuntimeError(f"exit code {process.returncode}: {said.decode(errors='replace')}")
    return process.returncode != 0


def torture(folder: Path, name: str, interruptions: int, chance: random.Random) -> bool:
    """End a run so often on its way to the end; whether it ends with the same bits."""
    expected, startup = undisturbed(folder / "undisturbed", name)
    out, done, inside, signals = folder / "killed", 0, 0, 0
    while done < interruptions and not (out / "record.json").exists():
        process = start(out, name)
        kind = done % 3
        by = signal.SIGKILL if kind < 2 else chance.choice((signal.SIGTERM, signal.SIGINT))
        writes = chance.randrange(1 + BATCHES // interruptions)
        pause = chance.random() * (0.05 if writes else startup)
        ended = end(process, out, max(writes, kind == 1), by=by, inside=kind == 1, pause=pause)
        inside += ended and kind == 1
        signals += ended and kind == 2
        done += ended
    finish(start(out, name))
    same = weights(out) == expected and not leftovers(out)
    text = f"{done - signals} kills, {inside} inside a checkpoint write, {signals} signals: "
    return report(name, f"{text}{'identical' if same else 'DIFFERENT'} bytes", good=same)


def run(seed: int) -> bool:
    print(f"  runs of {BATCHES} batches with a checkpoint after each", flush=True)
    results: list[bool] = []
    for name in RUNS:
        with tempfile.TemporaryDirectory() as folder:
            results.append(torture(Path(folder), name, INTERRUPTIONS, random.Random(f"{seed} {name}")))
    return all(results)
