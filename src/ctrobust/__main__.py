"""`ctrobust` and `python -m ctrobust`: Ctrl-C ends them quietly also while the command line is still being loaded."""

import os
import signal
import sys
from types import FrameType


def main() -> None:
    """Load the command line and run it."""
    signal.signal(signal.SIGINT, _leave)
    from ctrobust.cli import main as run

    run()


def _leave(_number: int, _frame: FrameType | None) -> None:
    """End at once: an exception could be swallowed by what is being imported, and there is nothing to save yet.

    Whoever has something to save handles the signal for as long.
    """
    if sys.stderr.isatty():
        os.write(2, b"\x1b[?25h\r")  # the cursor, which a spinner hides
    os._exit(130)


if __name__ == "__main__":
    main()
