"""Kills training runs again and again, resumes them, and compares the last bits with those of an undisturbed run.

Every other kill comes at a random moment, at times while the process starts. The ones between come inside the writing
of a checkpoint: the process is stopped when the temporary file is seen, and killed if the file is still there.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NATURAL = ("dropout", "multi-sample-dropout", "mdl", "mdl-pcc", "dropconnect")
WITH = "--eps 0.1 --gamma 2"
RUNS = {method: f"--method {method} --limit 480" for method in NATURAL} | {
    "fast, average, best": f"--recipe fast {WITH} --limit 580 --validation 100 --ema 0.9 --stop-on-collapse",
    "madry": f"--recipe madry {WITH} --limit 480",
    "free": f"--recipe free {WITH} --limit 480",
    "trades": f"--recipe trades {WITH} --limit 480",
}
COMMAND = str(Path(sys.executable).parent / "ctrobust")
OPTIONS = "--epochs 4 --batch-size 16 --width 16 --threads 1 --checkpoint-seconds 0"
BATCHES = 120
PATIENCE = 120.0


def start(out: Path, name: str) -> subprocess.Popen[bytes]:
    command = [COMMAND, "train", *RUNS[name].split(), *OPTIONS.split(), "--out", str(out), "--resume"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)


def finish(process: subprocess.Popen[bytes]) -> None:
    _, said = process.communicate(timeout=PATIENCE)
    if process.returncode:
        sys.exit(f"exit code {process.returncode}: {said.decode()}")


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


def kill(process: subprocess.Popen[bytes], out: Path, writes: int, *, inside: bool, pause: float) -> bool:
    """Kill it after so many checkpoints of its own, inside the next or some `pause` later; False if it ended before."""
    last, end = changed(out), time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < end:
        if (now := changed(out)) != last:
            last, writes = now, writes - 1
        if writes > 0:
            time.sleep(0.002)
        elif not inside:
            time.sleep(pause)
            process.kill()
            break
        elif leftovers(out):
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            if leftovers(out):
                process.kill()
                break
            process.send_signal(signal.SIGCONT)
    process.communicate(timeout=PATIENCE)
    return process.returncode == -signal.SIGKILL


def torture(folder: Path, name: str, kills: int, chance: random.Random) -> bool:
    """Kill a run so often on its way to the end; whether it ends with the same bits."""
    expected, startup = undisturbed(folder / "undisturbed", name)
    out, done, inside, begun = folder / "killed", 0, 0, time.monotonic()
    while done < kills and not (out / "record.json").exists():
        process = start(out, name)
        within = done % 2 == 1
        writes = chance.randrange(1 + BATCHES // kills)
        pause = chance.random() * (0.05 if writes else startup)
        killed = kill(process, out, max(writes, within), inside=within, pause=pause)
        inside += killed and within
        done += killed
        print(f"  {name}: kill {done} of {kills}, {inside} inside a checkpoint", file=sys.stderr, flush=True)
    finish(start(out, name))
    same = weights(out) == expected and not leftovers(out)
    verdict = f"{'identical' if same else 'DIFFERENT'} bytes, {time.monotonic() - begun:.0f} s"
    print(f"{name:22}{done:3} kills,{inside:3} of them inside a checkpoint write: {verdict}", flush=True)
    return same


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=54, help="over all runs")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    options = parser.parse_args()
    print(f"seed {options.seed}, runs of {BATCHES} batches with a checkpoint after each", flush=True)
    results: list[bool] = []
    for index, name in enumerate(RUNS):
        kills = (options.kills + index) // len(RUNS)
        with tempfile.TemporaryDirectory() as folder:
            results.append(torture(Path(folder), name, max(kills, 1), random.Random(f"{options.seed} {name}")))
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
