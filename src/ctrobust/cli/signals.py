"""Ctrl-C and SIGTERM: work that can be resumed stops after its batch, other work at once."""

import contextlib
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType

from ctrobust.cli.console import messages
from ctrobust.errors import CtrobustError

INTERRUPTED = 130


class SignalInterrupt(BaseException):
    """A signal ended the work. Like KeyboardInterrupt it is no Exception, so code that catches errors passes it on."""

    exit_code = INTERRUPTED


@contextlib.contextmanager
def stop_requests() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether the first Ctrl-C or SIGTERM came; a second one interrupts at once."""
    received: list[int] = []

    def handle(number: int, _: FrameType | None) -> None:
        if received:
            raise SignalInterrupt("stopped at once; the last checkpoint is intact")
        received.append(number)
        messages.print("stopping after this batch; a second Ctrl-C stops at once")

    with _handler(handle):
        yield lambda: bool(received)


@contextlib.contextmanager
def interruptible(kept: str = "finished attacks are stored and will not be run again") -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the work; `kept` is the sentence about what is kept of it."""

    def handle(_number: int, _frame: FrameType | None) -> None:
        raise SignalInterrupt(f"stopped; {kept}")

    with _handler(handle):
        yield


def given_command() -> str:
    """The command as it was given, which continues from what is stored."""
    return shlex.join(["ctrobust", *sys.argv[1:]])


@contextlib.contextmanager
def resumed_by(command: Callable[[], str | None]) -> Iterator[None]:
    """Add the command that resumes the work to the message of an interruption; None adds nothing."""
    try:
        yield
    except (CtrobustError, SignalInterrupt) as error:
        if error.exit_code != INTERRUPTED or (line := command()) is None:
            raise
        raise SignalInterrupt(f"{error}\nresume with:\n  {line}") from error


@contextlib.contextmanager
def _handler(handle: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
