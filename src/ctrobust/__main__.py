"""`ctrobust` and `python -m ctrobust`.

Ctrl-C and SIGTERM end the command quietly, with exit code 130, also while its modules are being imported.
"""

import os
import signal
import sys
from types import FrameType


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _exit_at_once)
    _open_closed_descriptors()
    from ctrobust.cli import main as run

    run()


def _open_closed_descriptors() -> None:
    """Open the null device where a standard descriptor is closed: a file opened later would get its number.

    Whatever a library prints to descriptor 2 would then be written into that file.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number is this one
            mode = "w" if number else "r"
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def _exit_at_once(_number: int, _frame: FrameType | None) -> None:
    """Exit without an exception, which a module that is being imported could swallow; there is nothing to save yet.

    Commands that have something to save replace this handler while they work.
    """
    if sys.stderr.isatty():
        os.write(2, b"\x1b[?25h\r")  # show the cursor, which a spinner hides
    os._exit(130)


if __name__ == "__main__":
    main()
