"""The command line, which stops itself (SIGSTOP) while it writes a checkpoint, so that a test can act at that moment.

CHECKPOINT=3 in the environment stops it inside the third checkpoint, with two complete ones written before. With
SECONDS it continues instead, and a signal kills it that many seconds later.
"""

import os
import signal
from pathlib import Path
from unittest import mock

from ctrobust.__main__ import main

replace = os.replace
remaining = int(os.environ.get("CHECKPOINT", "0"))
seconds = float(os.environ.get("SECONDS", "0"))


def stopping_replace(source: str, target: Path) -> None:
    global remaining
    if Path(target).name == "last.safetensors":
        remaining -= 1
        if remaining == 0 and seconds:
            signal.setitimer(signal.ITIMER_REAL, seconds)
        elif remaining == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
    replace(source, target)


if __name__ == "__main__":
    with mock.patch("os.replace", stopping_replace):
        main()
