"""The command, which stands still inside one of its checkpoints, until a test has done there what it wants to do.

The environment says inside which: CHECKPOINT=3, with two before it on the disk. With SECONDS it goes on from there, and
is killed by a signal after so many.
"""

import os
import signal
from pathlib import Path
from unittest import mock

from ctrobust.__main__ import main

replace = os.replace
left = int(os.environ.get("CHECKPOINT", "0"))
seconds = float(os.environ.get("SECONDS", "0"))


def replacing(source: str, target: Path) -> None:
    global left
    if Path(target).name == "last.safetensors":
        left -= 1
        if left == 0 and seconds:
            signal.setitimer(signal.ITIMER_REAL, seconds)
        elif left == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
    replace(source, target)


if __name__ == "__main__":
    with mock.patch("os.replace", replacing):
        main()
