"""The ctrobust command in a process of its own, for trials that interrupt it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

COMMAND = str(Path(sys.executable).parent / "ctrobust")
PATIENCE = 300.0


class Done(NamedTuple):
    """Exit code and output of a finished command."""

    code: int
    out: str
    err: str


def start(words: list[str], cwd: Path | None = None) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=cwd
    )  # fmt: skip


def finish(process: subprocess.Popen[bytes]) -> Done:
    out, err = process.communicate(timeout=PATIENCE)
    return Done(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))


def run_command(words: list[str], cwd: Path | None = None) -> Done:
    return finish(start(words, cwd))


def report(name: str, counts: str, *, good: bool) -> bool:
    """Print a line of a part and return whether it found no fault."""
    print(f"  {name:28} {counts}{'' if good else '  FAULT'}", flush=True)
    return good
